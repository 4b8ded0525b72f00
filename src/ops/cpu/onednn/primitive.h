// oneDNN behind the Kernel interface: descriptors from bound tensors, packed weights, and execution without allocation of ours.
// Includes dnnl.hpp: for the sources of "onednn" tactics only.
#pragma once

#include <dnnl.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/key.h"
#include "ops/core/tactic.h"
#include "ops/cpu/epilogue.h"

namespace smelt::ops::onednn {

/// The CPU engine, one for the process.
const dnnl::engine& engine();

/// Whether oneDNN uses these instructions here.
bool has(dnnl::cpu_isa isa);

/// oneDNN's element type; throws Error where it has none.
dnnl::memory::data_type data_type(DType t);

/// A tensor's descriptor with its strides, as `rank` axes (1s in front); type f32, f16, bf16, i32, i8 or u8.
dnnl::memory::desc describe(const BoundTensor& t, size_t rank);
/// The same with a layout that oneDNN chooses.
dnnl::memory::desc any_layout(const dnnl::memory::dims& dims, DType t);

/// Why oneDNN cannot compute in this type on this CPU; nothing when it can (f16 and bf16 need AVX-512 extensions).
std::optional<Refusal> rejects_type(DType t);

/// Adds an epilogue to a primitive's attributes. Only for epilogues that are `simple`; the residual's argument is
/// DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1.
void append(dnnl::post_ops& ops, const CpuEpilogue& epilogue, const dnnl::memory::desc& output);

/// A name for the layout of a weight's packed form, the same for equal layouts whatever problem asked for them.
std::string form_name(const dnnl::memory::desc& desc);
/// Whether that name tells the layout whole, to other processes and versions of oneDNN too: blocks of floats. Forms of bytes hold
/// what cannot be asked for.
bool form_lasts(const dnnl::memory::desc& desc);

/// Whether an implementation's name has that part, of an instruction set or a method.
inline bool names(std::string_view implementation, std::string_view part) {
  return implementation.find(part) != std::string_view::npos;
}

/// True for implementations worth measuring: not oneDNN's reference, nor one for an older instruction set.
bool is_fast(std::string_view implementation);

/// What the configuration of a candidate ends with whose primitive runs the program too.
inline constexpr std::string_view post_ops_suffix = "+post-ops";

/// One of oneDNN's implementations of a problem.
struct Implementation {
  std::string name;  // "brgconv:avx512_core_amx"
  std::shared_ptr<dnnl_primitive_desc> desc;
  dnnl::memory::desc source, weights, result, scratchpad;
  /// Generates its code, which takes 0.1 to 2 ms, unless oneDNN's own cache has the primitive. `threads`: what the descriptor was made
  /// for. Throws Error where oneDNN fails.
  dnnl::primitive primitive(int threads) const;
};

/// A copy of the descriptor of its own: next_impl changes a descriptor in place, and with it what shares it.
std::shared_ptr<dnnl_primitive_desc> clone(const_dnnl_primitive_desc_t desc);

/// All that are worth measuring, one of each name. Where `offer` asks for one candidate only, no more than that one's, whose
/// configuration is the name or the name with "+post-ops".
template <class Desc> std::vector<Implementation> implementations(Desc desc, const Offer& offer) {
  std::vector<Implementation> found;
  do {
    const std::string name = desc.impl_info_str();
    if (!is_fast(name) || std::ranges::find(found, name, &Implementation::name) != found.end()) continue;
    const ChosenTactic* only = offer.wanted.only;
    if (only && only->config != name && only->config != name + std::string(post_ops_suffix)) continue;
    found.push_back({name, clone(desc.get()), desc.src_desc(), desc.weights_desc(), desc.dst_desc(), desc.scratchpad_desc()});
    if (only) break;
  } while (desc.next_impl());
  return found;
}

/// How many times the f32 rate of AVX2 an implementation's instructions have, roughly (wider vectors, bf16 pairs, AMX tiles).
double rate(std::string_view implementation);

/// The form `to` of a constant, which lies as `from` in `source()`: the store's, where there is one. `packing`: what the name of the
/// form begins with.
Tensor packed(WeightStore* store, const Tensor& constant, const Key& packing, const std::function<Tensor()>& source,
              const dnnl::memory::desc& from, const dnnl::memory::desc& to, int threads);
/// A tensor laid out as `to` wants it, padding included.
Tensor packed(const Tensor& source, const dnnl::memory::desc& from, const dnnl::memory::desc& to, int threads);

/// A primitive with its arguments: bound once, handles set at each run.
class Primitive {
 public:
  Primitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad)
      : primitive_(std::move(primitive)), scratchpad_(scratchpad) {}
  void add(int argument, const dnnl::memory::desc& desc, void* fixed = nullptr);
  /// Memory of an added argument for the next run.
  void set(int argument, void* data);
  int64_t scratch() const { return (static_cast<int64_t>(scratchpad_.get_size()) + 63) / 64 * 64; }
  void run(void* scratch);

 private:
  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  dnnl::memory scratch_memory_;
};

/// Lays a tensor that a run computes out as a primitive wants it.
class Arrangement {
 public:
  Arrangement(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  /// Of the result, a multiple of 64.
  int64_t bytes() const { return bytes_; }
  int64_t scratch() const { return reorder_.scratch(); }
  void run(void* to, const void* from, void* scratch);

 private:
  Arrangement(const dnnl::reorder::primitive_desc& desc, const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  Primitive reorder_;
  int64_t bytes_;
};

}  // namespace smelt::ops::onednn
