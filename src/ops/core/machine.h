// The processor that kernels are chosen for.
#pragma once

#include "ops/core/tactic.h"

namespace smelt::ops {

inline constexpr int max_threads = 4096;  // that may be asked for

/// Cores that this process may use (its affinity mask and its control groups' quotas), at least 1.
int usable_cores();
/// Whether this processor has instructions that multiply bf16 (AVX512-BF16, which those with AMX have too).
bool multiplies_bf16();
/// This processor with `threads` threads (0: usable_cores()): its name with family, model, stepping and what instructions it has
/// for narrow types ("AMD EPYC (25.17.1 avx512_vnni avx512_bf16)"), the widest instruction set of avx2, avx512, amx that it
/// has ("x86-64" below avx2), and the libraries' versions. Throws Error (usage) for a count that is negative or above
/// max_threads.
Machine this_machine(int threads = 0);

}  // namespace smelt::ops
