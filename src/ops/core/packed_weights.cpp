#include "ops/core/packed_weights.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "base/memory.h"
#include "ops/core/packed_forms.h"
#include "ops/core/shared_forms.h"

namespace smelt::ops {
namespace {

using Kept = std::shared_ptr<const SharedForm>;
constexpr int64_t smallest_shared = 16 << 10;  // bytes: of smaller constants looking costs as much as packing

}  // namespace

Tensor WeightStore::placed(Tensor form) {
  constexpr int64_t smallest = 32 << 10, step = 64;  // bytes: below the first a form lies in a core's own caches
  const int64_t size = (form.nbytes() + step - 1) / step * step;
  std::byte* to = nullptr;
  Tensor block;
  {
    const std::lock_guard lock(mutex_);
    bytes_ += form.nbytes();
    made_ += form.nbytes();
    if (bytes_ < bytes_apart_ || size < smallest || size >= huge_page) return form;
    if (!block_.valid() || used_ + size > block_.nbytes()) {
      block_ = Tensor::empty(DType::u8, {huge_page});
      used_ = 0;
    }
    to = static_cast<std::byte*>(block_.raw()) + std::exchange(used_, used_ + size);
    block = block_;
  }
  std::memcpy(to, form.raw(), static_cast<size_t>(form.nbytes()));
  return Tensor::borrow(form.type(), form.shape(), to, std::make_shared<Tensor>(std::move(block)));
}

Tensor WeightStore::packed(const Tensor& constant, std::string_view packing, const std::function<Tensor()>& pack) {
  return found_or_packed(constant, std::string(packing), nullptr, pack);
}

Tensor WeightStore::packed(const Tensor& constant, std::string_view packing, const FormKind& is,
                           const std::function<Tensor()>& pack) {
  const std::string name =
      fmt::format("{}:{}[{}]:{}", forms_version, smelt::name(constant.type()), to_text(constant.shape()), packing);
  return found_or_packed(constant, name, &is, pack);
}

Tensor WeightStore::offered(const Tensor& constant, const std::string& name, const FormKind& is) {
  const std::lock_guard lock(mutex_);
  const auto at = offered_.find({constant.raw(), name});
  if (at == offered_.end() || at->second.nbytes() != smelt::bytes(is.type, elements(is.shape))) return {};
  bytes_ += at->second.nbytes();
  return Tensor::borrow(is.type, is.shape, at->second.raw(), std::make_shared<Tensor>(at->second));
}

Tensor WeightStore::found_or_packed(const Tensor& constant, const std::string& name, const FormKind* is,
                                    const std::function<Tensor()>& pack) {
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    const FormKind kind = is ? *is : FormKind{DType::undefined, {}};
    auto& slot = entries_[Key{constant.raw(), constant.type(), constant.shape(), name, kind.type, kind.shape}];
    if (!slot) slot = std::make_shared<Entry>();
    entry = slot;
  }
  std::lock_guard lock(entry->packing);
  if (!entry->form.valid()) {
    Tensor form = is ? offered(constant, name, *is) : Tensor();
    if (!form.valid() && is && bytes_apart_ > 0 && constant.nbytes() >= smallest_shared) {
      std::shared_ptr<const SharedForm> shared = find_shared(constant, name, smelt::bytes(is->type, elements(is->shape)));
      if (shared) {
        const std::lock_guard count(mutex_);
        bytes_ += shared->form.nbytes();
      } else {
        shared = share(constant, name, placed(pack()));
      }
      form = Tensor::borrow(is->type, is->shape, const_cast<void*>(shared->form.raw()), std::make_shared<Kept>(shared));
    }
    if (!form.valid()) form = placed(pack());
    entry->source = constant;
    entry->form = std::move(form);
    entry->lasts = is != nullptr;
  }
  PackedForms::tell(constant, entry->form);
  return entry->form;
}

std::vector<WeightStore::Lasting> WeightStore::lasting() const {
  std::vector<std::pair<std::string, std::shared_ptr<Entry>>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) all.emplace_back(std::get<std::string>(key), entry);
  }
  std::vector<Lasting> list;
  for (auto& [name, entry] : all) {
    const std::lock_guard lock(entry->packing);
    if (entry->lasts) list.push_back({entry->source, std::move(name), entry->form});
  }
  return list;
}

void WeightStore::offer(const void* constant, std::string name, Tensor form) {
  const std::lock_guard lock(mutex_);
  offered_.insert_or_assign({constant, std::move(name)}, std::move(form));
}

int64_t WeightStore::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

int64_t WeightStore::bytes_made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

}  // namespace smelt::ops
