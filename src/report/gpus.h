// The GPUs of this machine and what smelt needs for them, as tables and facts.
#pragma once

#include <span>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/library.h"
#include "report/report.h"

namespace smelt::report {

/// Facts about the GPU that a report was measured on, and about NVIDIA's libraries that were found.
std::vector<Fact> gpu_facts(const device::cuda::DeviceInfo& gpu);
std::vector<Fact> library_facts(std::span<const device::cuda::LibraryState> libraries);
/// Both for Options::device; nothing for the processor, and for a GPU that is not there.
void add_gpu_facts(const std::string& device, std::vector<Fact>& machine, std::vector<Fact>& versions);

/// The GPUs with their present state, the processes on them, and NVIDIA's libraries with what each missing library would give.
/// Without a GPU: for JSON a table that says why there is none, else nothing.
void add_gpu_tables(std::vector<Table>& tables, bool as_json);

}  // namespace smelt::report
