#include "ops/core/packed_weights.h"

#include <cstring>
#include <utility>

#include "base/memory.h"
#include "ops/core/packed_forms.h"

namespace smelt::ops {

Tensor WeightStore::placed(Tensor form) {
  constexpr int64_t smallest = 32 << 10, step = 64;  // bytes: below the first a form lies in a core's own caches
  const int64_t size = (form.nbytes() + step - 1) / step * step;
  std::byte* to = nullptr;
  Tensor block;
  {
    const std::lock_guard lock(mutex_);
    bytes_ += form.nbytes();
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
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    auto& slot = entries_[Key{constant.raw(), constant.type(), constant.shape(), std::string(packing)}];
    if (!slot) slot = std::make_shared<Entry>();
    entry = slot;
  }
  std::lock_guard lock(entry->packing);
  if (!entry->form.valid()) {
    Tensor form = placed(pack());
    entry->source = constant;
    entry->form = std::move(form);
  }
  PackedForms::tell(constant, entry->form);
  return entry->form;
}

int64_t WeightStore::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace smelt::ops
