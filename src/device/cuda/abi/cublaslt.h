// What smelt uses of cuBLASLt's interface (cublasLt.h), declared here so that a build needs no CUDA toolkit. The numbers and
// layouts are NVIDIA's: tests/device/abi_test.cpp compares them with the toolkit's header where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/abi/driver.h"

struct cublasLtContext;

namespace smelt::device::cuda::abi {

using BlasStatus = int;  // cublasStatus_t
using BlasHandle = cublasLtContext*;
using MatmulDescriptor = void*;  // cublasLtMatmulDesc_t
using MatrixLayout = void*;      // cublasLtMatrixLayout_t
using MatmulPreference = void*;  // cublasLtMatmulPreference_t

enum BlasStatusCode : BlasStatus { blas_success = 0 };
enum BlasCompute : int { compute_f32 = 68, compute_f32_tf32 = 77 };  // cublasComputeType_t
enum BlasType : int { r_f32 = 0, r_f16 = 2, r_bf16 = 14 };           // cudaDataType
enum BlasOperation : int { operation_n = 0, operation_t = 1 };
enum MatmulAttribute : int {  // cublasLtMatmulDescAttributes_t
  matmul_transpose_a = 3,
  matmul_transpose_b = 4,
  matmul_epilogue = 7,
  matmul_bias_pointer = 8,
  matmul_bias_type = 26,
};
enum LayoutAttribute : int { layout_batch_count = 5, layout_batch_stride = 6 };
enum PreferenceAttribute : int {  // cublasLtMatmulPreferenceAttributes_t
  preference_workspace_bytes = 1,
  preference_reduction_schemes = 3,
  preference_alignment_a = 5,
  preference_alignment_b = 6,
  preference_alignment_c = 7,
  preference_alignment_d = 8,
};
enum ReductionScheme : uint32_t { reduction_compute_type = 2 };  // parts kept in the workspace, added in a step of its own
enum MatmulEpilogue : int {                                      // cublasLtEpilogue_t; gelu is the tanh form
  epilogue_default = 1,
  epilogue_relu = 2,
  epilogue_bias = 4,
  epilogue_relu_bias = 6,
  epilogue_gelu = 32,
  epilogue_gelu_bias = 36,
};
enum AlgorithmAttribute : int {  // cublasLtMatmulAlgoConfigAttributes_t
  algorithm_id = 0,
  algorithm_tile = 1,
  algorithm_splits = 2,
  algorithm_swizzle = 4,
  algorithm_custom = 5,
  algorithm_stages = 6,
  algorithm_inner_shape = 7,
  algorithm_cluster_shape = 8,
};

struct MatmulAlgorithm {
  uint64_t data[8];
};                        // cublasLtMatmulAlgo_t
struct MatmulHeuristic {  // cublasLtMatmulHeuristicResult_t
  MatmulAlgorithm algorithm;
  size_t workspace_bytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(MatmulHeuristic) == 96);

#define SMELT_CUBLASLT(X)                                                                                                        \
  X(create, cublasLtCreate, BlasHandle* handle)                                                                                  \
  X(destroy, cublasLtDestroy, BlasHandle handle)                                                                                 \
  X(matmul_create, cublasLtMatmulDescCreate, MatmulDescriptor* matmul, BlasCompute compute, BlasType scale)                      \
  X(matmul_destroy, cublasLtMatmulDescDestroy, MatmulDescriptor matmul)                                                          \
  X(matmul_set, cublasLtMatmulDescSetAttribute, MatmulDescriptor matmul, MatmulAttribute attribute, const void* value,           \
    size_t bytes)                                                                                                                \
  X(layout_create, cublasLtMatrixLayoutCreate, MatrixLayout* layout, BlasType type, uint64_t rows, uint64_t columns,             \
    int64_t stride)                                                                                                              \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, MatrixLayout layout)                                                            \
  X(layout_set, cublasLtMatrixLayoutSetAttribute, MatrixLayout layout, LayoutAttribute attribute, const void* value,             \
    size_t bytes)                                                                                                                \
  X(preference_create, cublasLtMatmulPreferenceCreate, MatmulPreference* preference)                                             \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy, MatmulPreference preference)                                            \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute, MatmulPreference preference, PreferenceAttribute attribute,            \
    const void* value, size_t bytes)                                                                                             \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic, BlasHandle handle, MatmulDescriptor matmul, MatrixLayout a, MatrixLayout b,       \
    MatrixLayout c, MatrixLayout d, MatmulPreference preference, int wanted, MatmulHeuristic* found, int* count)                 \
  X(algorithm_get, cublasLtMatmulAlgoConfigGetAttribute, const MatmulAlgorithm* algorithm, AlgorithmAttribute attribute,         \
    void* value, size_t bytes, size_t* written)                                                                                  \
  X(matmul, cublasLtMatmul, BlasHandle handle, MatmulDescriptor matmul, const void* alpha, const void* a, MatrixLayout a_layout, \
    const void* b, MatrixLayout b_layout, const void* beta, const void* c, MatrixLayout c_layout, void* d,                       \
    MatrixLayout d_layout, const MatmulAlgorithm* algorithm, void* workspace, size_t workspace_bytes, Stream stream)

struct BlasLt {
  size_t (*version)() = nullptr;                            // cublasLtGetVersion
  const char* (*status_text)(BlasStatus status) = nullptr;  // cublasLtGetStatusString
#define X(name, symbol, ...) BlasStatus (*name)(__VA_ARGS__) = nullptr;
  SMELT_CUBLASLT(X)
#undef X
};

}  // namespace smelt::device::cuda::abi
