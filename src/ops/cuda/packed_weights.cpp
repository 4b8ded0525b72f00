#include "ops/cuda/packed_weights.h"

#include "device/cuda/upload.h"

namespace smelt::ops {

namespace cuda = device::cuda;

std::shared_ptr<cuda::Memory> DeviceWeights::packed(const std::shared_ptr<cuda::Device>& device, const Tensor& constant,
                                                    std::string_view packing, const std::function<Tensor()>& pack) {
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto& e) { return e.second.use_count() == 1 && e.second->form.expired(); });
    auto& slot = entries_[Key{device->info().ordinal, constant.raw(), constant.type(), constant.shape(), std::string(packing)}];
    if (!slot) slot = std::make_shared<Entry>();
    entry = slot;
  }
  std::lock_guard lock(entry->packing);
  std::shared_ptr<Form> form = entry->form.lock();
  if (!form) {
    const Tensor host = pack();
    form = std::make_shared<Form>(Form{constant, device->allocate(host.nbytes(), "packed weights")});
    const cuda::Upload whole{form->memory->address(), host.raw(), host.nbytes()};
    cuda::upload(device, {&whole, 1}, 1);
    std::lock_guard known(mutex_);
    entry->form = form;
  }
  return {form, form->memory.get()};
}

int64_t DeviceWeights::bytes() const {
  std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [key, entry] : entries_)
    if (const auto form = entry->form.lock()) sum += form->memory->bytes();
  return sum;
}

}  // namespace smelt::ops
