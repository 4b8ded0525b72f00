// Weights packed for a kernel, shared: several Executions of one plan, and several kernels of one Execution, that want the
// same constant in the same form get the same bytes. A plan's file may hold forms, which are then used where they lie.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "smelt/tensor.h"

namespace smelt::ops {

/// A part of every lasting form's name. It goes up when a kernel's form changes and its name does not: files of before are then
/// packed anew (tests/ops/registry/lasting_forms_test.cpp tells).
inline constexpr int forms_version = 1;

/// What a form is, to the byte, whoever packs it.
struct FormKind {
  DType type;
  Shape shape;
};

class WeightStore {
 public:
  /// Once so many bytes of forms are made, further ones of less than a huge page lie side by side in huge pages (base/memory.h). A
  /// small model does not pay for such a page.
  explicit WeightStore(int64_t bytes_apart = int64_t{1} << 20) : bytes_apart_(bytes_apart) {}

  /// `constant` in the form that `packing` names ("onednn:OIhw8i8o:f32:64x64x3x3"): made by `pack` the first time, shared
  /// afterwards. The name must say everything that the form depends on but the constant. Thread-safe; a form is packed
  /// once even when several threads ask for it at the same time. When pack throws, the next caller tries again.
  Tensor packed(const Tensor& constant, std::string_view packing, const std::function<Tensor()>& pack);
  /// The same for forms that last: the name and the constant's type and shape say everything, in every process and on every machine,
  /// and there is nothing but numbers in them. One that is offered is taken where it has the size of `is`, which pack's result is. A
  /// form of that name that was asked for as something else is another one: no kernel reads behind a form's end.
  Tensor packed(const Tensor& constant, std::string_view packing, const FormKind& is, const std::function<Tensor()>& pack);

  struct Lasting {
    Tensor constant;
    std::string name;
    Tensor form;
  };
  /// The lasting forms that kernels asked for.
  std::vector<Lasting> lasting() const;
  /// A form of that name, of the constant that begins there, which need not be packed: `form` is a file's bytes.
  void offer(const void* constant, std::string name, Tensor form);

  /// Bytes of all packed forms, those of files among them; the constants themselves are not counted.
  int64_t bytes() const;
  /// Bytes of those that were packed here.
  int64_t bytes_made() const;

 private:
  /// The form, or its copy among others in a block of huge pages.
  Tensor placed(Tensor form);
  Tensor found_or_packed(const Tensor& constant, const std::string& name, const FormKind* is,
                         const std::function<Tensor()>& pack);
  /// What was offered, as `is`; nothing where it has another size.
  Tensor offered(const Tensor& constant, const std::string& name, const FormKind& is);

  struct Entry {
    std::mutex packing;  // held while the form is made
    Tensor source;       // keeps the constant's memory, and with it the key, from being reused
    Tensor form;
    bool lasts = false;
  };
  /// Where the constant lies, as what it is read, the packing, and what the form is where that is said.
  using Key = std::tuple<const void*, DType, Shape, std::string, DType, Shape>;
  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  std::map<std::pair<const void*, std::string>, Tensor> offered_;
  int64_t bytes_ = 0, made_ = 0, bytes_apart_;
  Tensor block_;  // what small forms are laid into
  int64_t used_ = 0;
};

}  // namespace smelt::ops
