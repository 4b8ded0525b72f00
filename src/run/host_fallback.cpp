#include "run/host_fallback.h"

#include <vector>

#include "base/memory.h"

namespace smelt::run {
namespace {

class HostKernel final : public ops::Kernel {
 public:
  HostKernel(const ops::BoundNode& node, std::unique_ptr<ops::Kernel> kernel, std::shared_ptr<Backend> backend)
      : kernel_(std::move(kernel)), backend_(std::move(backend)), given_(node.inputs), made_(node.outputs) {
    for (const ops::BoundTensor& t : node.inputs) {
      copied_.push_back(is_copied(t));
      in_place_.push_back(t.type == DType::string && !t.constant.valid());
    }
  }

  bool reads(size_t i) const override { return copied_[i] || in_place_[i]; }
  void run(const ops::Buffers& b) override {
    allocate();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (copied_[i]) backend_->copy(inputs_[i].raw(), b.inputs[i], inputs_[i].nbytes(), b.stream);
      if (in_place_[i]) in_[i] = b.inputs[i];
    }
    backend_->wait(b.stream);
    kernel_->run({in_, out_, workspace_.raw()});
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i].valid()) backend_->copy(b.outputs[i], outputs_[i].raw(), outputs_[i].nbytes(), b.stream);
    backend_->wait(b.stream);  // the next run writes the same memory
  }

 private:
  /// Strings have never left the host's memory.
  static bool is_copied(const ops::BoundTensor& t) {
    return t.type != DType::undefined && t.type != DType::string && !t.constant.valid();
  }

  /// In the first run: the GPU has room for the tensors then. Memory that copies are fast with takes a second for a GB.
  void allocate() {
    if (!in_.empty() || !out_.empty()) return;
    const auto host = [&](const std::vector<ops::BoundTensor>& tensors) {
      std::vector<Tensor> memory;
      for (const ops::BoundTensor& t : tensors) {
        const int64_t bytes = is_copied(t) ? ops::storage_bytes(t) : 0;
        if (bytes > 0) check_available(bytes, t.type, t.shape);
        memory.push_back(is_copied(t) ? backend_->allocate_host(DType::u8, {bytes}) : t.constant);
      }
      return memory;
    };
    workspace_ = Tensor::empty(DType::u8, {kernel_->workspace()});
    inputs_ = host(given_);
    outputs_ = host(made_);
    for (const Tensor& t : inputs_) in_.push_back(t.raw());
    for (Tensor& t : outputs_) out_.push_back(t.raw());
  }

  std::unique_ptr<ops::Kernel> kernel_;
  std::shared_ptr<Backend> backend_;
  std::vector<ops::BoundTensor> given_, made_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<bool> copied_, in_place_;
  Tensor workspace_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

}  // namespace

std::unique_ptr<ops::Kernel> through_host_memory(const ops::BoundNode& node, std::unique_ptr<ops::Kernel> kernel,
                                                 std::shared_ptr<Backend> backend) {
  return std::make_unique<HostKernel>(node, std::move(kernel), std::move(backend));
}

}  // namespace smelt::run
