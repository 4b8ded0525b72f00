// What the depthwise kernels of smelt's own have in common on the host: a packed filter, an epilogue, and a launch.
#pragma once

#include <functional>

#include "ops/conv/cuda_request.h"

namespace smelt::ops::conv {

/// Args: the structure of a kernel with the tensors `x` and `filter`; its numbers are the constructor's caller's to fill in.
template <class Args> class DepthwiseCuda : public CompiledKernel {
 public:
  bool in_place(size_t i) const override { return i >= operands_ && epilogue_.in_place(i); }
  bool reads(size_t i) const override { return i == 0 || epilogue_.reads(i); }

  void run(const Buffers& b) override {
    args.x = b.inputs[0];
    ops::Arguments arguments;
    arguments.value(args).bytes(epilogue_.argument(b), epilogue_.bytes());
    launch(b, shape, arguments);
  }

 protected:
  /// `form` names what `packed` makes of the weights, beside them.
  DepthwiseCuda(const GpuRequest& r, const device::cuda::Source& source, CudaEpilogue epilogue, std::string_view form,
                const std::function<Tensor()>& packed)
      : CompiledKernel(*r.gpu, source, "conv"), epilogue_(std::move(epilogue)), operands_(r.at.operands) {
    if (!r.gpu->device) return;
    filter_ = r.gpu->weights->packed(r.gpu->device, r.weight().constant, r.packing(form).text(), packed);
    args.filter = reinterpret_cast<const void*>(filter_->address());
  }

  Args args{};
  device::cuda::LaunchShape shape;

 private:
  CudaEpilogue epilogue_;
  size_t operands_;  // the first input that the epilogue reads
  std::shared_ptr<device::cuda::Memory> filter_;
};

}  // namespace smelt::ops::conv
