// Programmatic dependent launch: in a recording a kernel launched so (LaunchShape::programmatic) may begin when the blocks of the one
// before it are done, or have all begun (EarlyKernels::note_ahead), and before their writes are visible. No kernel lets the next
// begin (griddepcontrol.launch_dependents): on a plain stream that may be one of cuDNN's, some of which read what is not written
// yet (device/cuda/graph.cpp).
#pragma once

#include "common/ptx/barriers.cuh"

/// Waits until the kernels before have ended and their writes are visible. Every kernel that is launched so executes it in all of
/// its threads before they read or write anything but constants: a kernel that skips it breaks the order between its neighbours.
/// Does nothing before sm_90, and where the kernel was launched as usual.
__device__ __forceinline__ void wait_for_kernels_before() {
#if __CUDA_ARCH__ >= 900
  ptx::griddepcontrol_wait();
#endif
}
