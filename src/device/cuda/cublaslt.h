// cuBLASLt's matrix products: opened at run time, every call checked, its objects owned. Matrices are stored by columns here, as
// in BLAS: a row-major product is that of the transposed operands in the other order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda/abi/cublaslt.h"
#include "device/cuda/device.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {

/// Why cuBLASLt cannot be used; empty where it can.
std::string cublaslt_missing();
/// "cuBLASLt 13.1.0", part of the key of what was measured with it. Throws Error (unsupported) where there is none.
std::string cublaslt_version();
LibraryState cublaslt_library();

struct BlasMatrix {
  abi::BlasType type = abi::r_f16;
  int64_t rows = 0, columns = 0;  // as stored, before it is transposed
  int64_t stride = 0;             // elements from one column to the next
  int64_t batch_stride = 0;
  bool transposed = false;
  int64_t alignment = 16;  // bytes
};

/// d = epilogue(alpha · a · b + beta · c + bias): c of d's shape and type, bias one value for each of d's rows.
struct BlasProblem {
  abi::BlasCompute compute = abi::compute_f32;
  BlasMatrix a, b, d;
  int64_t batches = 1;
  float alpha = 1, beta = 0;
  abi::MatmulEpilogue epilogue = abi::epilogue_default;
  abi::BlasType bias_type = abi::r_f16;
};

struct BlasAlgorithm {
  abi::MatmulAlgorithm data;
  int64_t workspace_bytes = 0;
  /// "66 t599 s35 k1 w0 c0 i0 x9": its number, tile, stages, splits, swizzle, custom option, inner and cluster shape.
  std::string name;
};

/// One product on a device, described once.
class BlasMatmul {
 public:
  /// Throws Error: unsupported without cuBLASLt, failed for what it refuses.
  BlasMatmul(const std::shared_ptr<Device>& device, const BlasProblem& problem);

  /// The library's answers for at most so much workspace, best guess first, without those whose sums may be added in an order
  /// that differs from run to run, or in the result's type. Empty where it has none.
  std::vector<BlasAlgorithm> algorithms(int wanted, int64_t workspace_bytes) const;
  struct Operands {
    const void *a = nullptr, *b = nullptr, *bias = nullptr, *c = nullptr;
    void* d = nullptr;
    void* workspace = nullptr;
  };
  /// Enqueues it. Called by one thread at a time.
  void run(const BlasAlgorithm& algorithm, const Operands& operands, abi::Stream stream) const;

 private:
  struct Handle;
  static std::shared_ptr<Handle> handle_of(const std::shared_ptr<Device>& device);
  using Owned = std::unique_ptr<void, abi::BlasStatus (*)(void*)>;
  Owned layout(const BlasMatrix& m) const;

  std::shared_ptr<Handle> handle_;
  BlasProblem problem_;
  Owned matmul_, a_, b_, d_;
};

}  // namespace smelt::device::cuda
