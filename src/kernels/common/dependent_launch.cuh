// Programmatic dependent launch: a kernel launched so (LaunchShape::programmatic) may begin before the one before it has ended.
// Both do nothing before sm_90, and where the kernel was launched as usual.
#pragma once

/// Waits until the kernels before have ended and their writes are visible. Every kernel that is launched so executes it in all of
/// its threads before it reads or writes anything but constants: a kernel that skips it breaks the order between its neighbours.
__device__ __forceinline__ void wait_for_kernels_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel begin once every block has called it or ended.
__device__ __forceinline__ void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
