#include "ops/core/packed_weights.h"

namespace smelt::ops {

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
    Tensor form = pack();
    entry->source = constant;
    entry->form = std::move(form);
    std::lock_guard count(mutex_);
    bytes_ += entry->form.nbytes();
  }
  return entry->form;
}

int64_t WeightStore::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace smelt::ops
