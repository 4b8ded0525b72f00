#include "device/cuda/cublaslt.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <set>
#include <span>

#include "base/error.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {
namespace {

using abi::BlasLt;

const Functions<BlasLt>& opened() {
  static const auto made = [] {
    Functions<BlasLt> f({"cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, "with it smelt has NVIDIA's matrix products"},
                        "pip install nvidia-cublas, or install the CUDA toolkit.");
    f.load(&BlasLt::version, "cublasLtGetVersion");
    f.load(&BlasLt::status_text, "cublasLtGetStatusString");
#define X(name, symbol, ...) f.load(&BlasLt::name, #symbol);
    SMELT_CUBLASLT(X)
#undef X
    return f;
  }();
  return made;
}

const BlasLt& blas() { return opened().get(); }

void check_blas(abi::BlasStatus status, std::string_view doing) {
  if (status != abi::blas_success) fail("cuBLASLt: {}: {}", doing, blas().status_text(status));
}

template <class T> void set(abi::MatmulDescriptor m, abi::MatmulAttribute attribute, const T& value) {
  check_blas(blas().matmul_set(m, attribute, &value, sizeof value), "describing a product");
}
template <class T> void set(abi::MatrixLayout l, abi::LayoutAttribute attribute, const T& value) {
  check_blas(blas().layout_set(l, attribute, &value, sizeof value), "describing a matrix");
}
template <class T> void set(abi::MatmulPreference p, abi::PreferenceAttribute attribute, const T& value) {
  check_blas(blas().preference_set(p, attribute, &value, sizeof value), "asking for algorithms");
}

std::string name_of(const abi::MatmulAlgorithm& a) {
  // Two of them are 16 bits wide, of which the library fills those that it has.
  const auto get = [&](abi::AlgorithmAttribute attribute, size_t bytes) {
    uint32_t value = 0;
    size_t written = 0;
    blas().algorithm_get(&a, attribute, &value, bytes, &written);
    return value;
  };
  return fmt::format("{} t{} s{} k{} w{} c{} i{} x{}", get(abi::algorithm_id, 4), get(abi::algorithm_tile, 4),
                     get(abi::algorithm_stages, 4), get(abi::algorithm_splits, 4), get(abi::algorithm_swizzle, 4),
                     get(abi::algorithm_custom, 4), get(abi::algorithm_inner_shape, 2), get(abi::algorithm_cluster_shape, 2));
}

}  // namespace

std::string cublaslt_missing() { return opened().missing(); }

std::string cublaslt_version() { return blas(), "cuBLASLt " + cublaslt_library().version; }

LibraryState cublaslt_library() {
  if (!opened().missing().empty()) return opened().state("");
  const size_t v = blas().version();
  return opened().state(fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100));
}

struct BlasMatmul::Handle {
  std::shared_ptr<Device> device;
  abi::BlasHandle handle = nullptr;
  explicit Handle(std::shared_ptr<Device> d) : device(std::move(d)) {
    const Device::Current current(*device);
    check_blas(blas().create(&handle), "starting");
  }
  ~Handle() {
    const Device::Current current(*device);
    blas().destroy(handle);
  }
};

std::shared_ptr<BlasMatmul::Handle> BlasMatmul::handle_of(const std::shared_ptr<Device>& device) {
  static std::mutex mutex;
  static std::map<const Device*, std::weak_ptr<Handle>> handles;
  std::lock_guard lock(mutex);
  std::weak_ptr<Handle>& slot = handles[device.get()];
  std::shared_ptr<Handle> handle = slot.lock();
  if (!handle) slot = handle = std::make_shared<Handle>(device);
  return handle;
}

BlasMatmul::Owned BlasMatmul::layout(const BlasMatrix& m) const {
  abi::MatrixLayout l = nullptr;
  check_blas(blas().layout_create(&l, m.type, static_cast<uint64_t>(m.rows), static_cast<uint64_t>(m.columns), m.stride),
             "describing a matrix");
  Owned owned(l, blas().layout_destroy);
  set(l, abi::layout_batch_count, static_cast<int32_t>(problem_.batches));
  set(l, abi::layout_batch_stride, m.batch_stride);
  return owned;
}

BlasMatmul::BlasMatmul(const std::shared_ptr<Device>& device, const BlasProblem& p)
    : handle_(handle_of(device)),
      problem_(p),
      matmul_([&] {
        abi::MatmulDescriptor m = nullptr;
        check_blas(blas().matmul_create(&m, p.compute, abi::r_f32), "describing a product");
        return Owned(m, blas().matmul_destroy);
      }()),
      a_(layout(p.a)),
      b_(layout(p.b)),
      d_(layout(p.d)) {
  set(matmul_.get(), abi::matmul_transpose_a, p.a.transposed ? abi::operation_t : abi::operation_n);
  set(matmul_.get(), abi::matmul_transpose_b, p.b.transposed ? abi::operation_t : abi::operation_n);
  set(matmul_.get(), abi::matmul_epilogue, p.epilogue);
  if (p.epilogue & abi::epilogue_bias) {
    set(matmul_.get(), abi::matmul_bias_type, p.bias_type);
    set(matmul_.get(), abi::matmul_bias_pointer, static_cast<const void*>(nullptr));
  }
}

std::vector<BlasAlgorithm> BlasMatmul::algorithms(int wanted, int64_t workspace_bytes) const {
  const Device::Current current(*handle_->device);
  abi::MatmulPreference preference = nullptr;
  check_blas(blas().preference_create(&preference), "asking for algorithms");
  const std::unique_ptr<void, abi::BlasStatus (*)(abi::MatmulPreference)> owner(preference, blas().preference_destroy);
  set(preference, abi::preference_workspace_bytes, static_cast<uint64_t>(workspace_bytes));
  set(preference, abi::preference_reduction_schemes, static_cast<uint32_t>(abi::reduction_compute_type));
  set(preference, abi::preference_alignment_a, static_cast<uint32_t>(problem_.a.alignment));
  set(preference, abi::preference_alignment_b, static_cast<uint32_t>(problem_.b.alignment));
  set(preference, abi::preference_alignment_c, static_cast<uint32_t>(problem_.d.alignment));
  set(preference, abi::preference_alignment_d, static_cast<uint32_t>(problem_.d.alignment));
  std::vector<abi::MatmulHeuristic> found(static_cast<size_t>(wanted));
  int count = 0;
  // Other than success here means that there is none.
  if (blas().heuristic(handle_->handle, matmul_.get(), a_.get(), b_.get(), d_.get(), d_.get(), preference, wanted, found.data(),
                       &count) != abi::blas_success)
    return {};
  std::vector<BlasAlgorithm> algorithms;
  std::set<std::string> names;
  for (const abi::MatmulHeuristic& h : std::span(found.data(), static_cast<size_t>(count))) {
    if (h.state != abi::blas_success) continue;
    const std::string name = name_of(h.algorithm);
    if (names.insert(name).second) algorithms.push_back({h.algorithm, static_cast<int64_t>(h.workspace_bytes), name});
  }
  return algorithms;
}

void BlasMatmul::run(const BlasAlgorithm& algorithm, const Operands& o, abi::Stream stream) const {
  const Device::Current current(*handle_->device);
  if (problem_.epilogue & abi::epilogue_bias) set(matmul_.get(), abi::matmul_bias_pointer, o.bias);
  check_blas(blas().matmul(handle_->handle, matmul_.get(), &problem_.alpha, o.a, a_.get(), o.b, b_.get(), &problem_.beta,
                           problem_.beta == 0 ? o.d : o.c, d_.get(), o.d, d_.get(), &algorithm.data, o.workspace,
                           static_cast<size_t>(algorithm.workspace_bytes), stream),
             "a product");
}

}  // namespace smelt::device::cuda
