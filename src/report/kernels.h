// Compiled kernels as tables: what they take, how many fit on a multiprocessor, what their instructions do.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/compiler.h"
#include "inspect/kernel.h"
#include "inspect/occupancy.h"
#include "report/table.h"

namespace smelt::report {

/// A kernel and how it is launched.
struct InspectedKernel {
  inspect::Kernel kernel;
  inspect::Launch launch;
  bool assumed_threads = false;  // nothing says how many threads a block has
  // Of a plan; else empty:
  std::string step, grid;    // the step that launches it, "4x1x1"
  std::string problem;       // what the kernel was made for: "gemm:64x128x32"
  std::string compiled_for;  // "sm_90a"
  std::shared_ptr<const device::cuda::Source> source;
};

/// The launch that the kernel's own numbers make; threads are the most that it was compiled for, else 256.
InspectedKernel inspected(inspect::Kernel kernel);

/// One row a resource: what a block takes, what there is, how many blocks that lets in. The note is the answer.
Table resource_table(const inspect::Multiprocessor& m, const inspect::Launch& launch);
/// One row an architecture.
Table architecture_table(const inspect::Launch& launch);
/// One row a kernel: registers, memory, what it was compiled for.
Table kernel_table(const std::vector<InspectedKernel>& kernels);
/// One row a kernel: how many of its blocks fit, what keeps more from it, and what would help. Kernels whose registers or
/// architecture are not known are left out; steps of a plan that launch the same kernel alike share a row.
Table occupancy_table(const std::vector<InspectedKernel>& kernels);
/// One row a kind of instruction.
Table mix_table(const inspect::Kernel& kernel);
/// One row a line of source, with the widest loads. Lines are looked up in `texts`, by the names of files, before any file is read.
Table line_table(const inspect::Kernel& kernel, const std::map<std::string, std::string>& texts = {});

}  // namespace smelt::report
