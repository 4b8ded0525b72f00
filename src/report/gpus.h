// The GPUs of this machine and what smelt needs for them, as tables and facts.
#pragma once

#include <span>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/library.h"
#include "report/report.h"

namespace smelt::report {

/// What a report says of the GPU that it was measured on, and of the libraries of NVIDIA's that were found.
std::vector<Fact> gpu_facts(const device::cuda::DeviceInfo& gpu);
std::vector<Fact> library_facts(std::span<const device::cuda::LibraryState> libraries);
/// Both for Options::device; nothing for the processor, and for a GPU that is not there.
void add_gpu_facts(const std::string& device, std::vector<Fact>& machine, std::vector<Fact>& versions);

/// The GPUs with what they do now, the processes on them, and NVIDIA's libraries with what each missing one would give. Where
/// there is no GPU, for JSON a table that says why; else nothing.
void add_gpu_tables(std::vector<Table>& tables, bool as_json);

}  // namespace smelt::report
