// The measured ceilings on disk: one file a processor and thread count, and one a GPU, in the cache folder.
#pragma once

#include <filesystem>
#include <optional>

#include "device/ceilings.h"
#include "profile/profile.h"

namespace smelt::profile {

/// The ceilings that `smelt devices --measure` kept for this CPU and thread count (0: all cores). Nothing if it never ran, or if
/// the file is damaged.
std::optional<device::Ceilings> load_ceilings(const std::filesystem::path& cache_dir, int threads);
void store_ceilings(const std::filesystem::path& cache_dir, const device::Ceilings& c);
/// The same for the GPU of this DeviceInfo::uuid; `gpu` is its name, for readers of the file.
std::optional<device::Ceilings> load_gpu_ceilings(const std::filesystem::path& cache_dir, const std::string& uuid);
void store_gpu_ceilings(const std::filesystem::path& cache_dir, const std::string& uuid, const std::string& gpu,
                        const device::Ceilings& c);

/// The form that profiles use: copy bandwidth, and a rate for each type.
Roof roof_of(const device::Ceilings& c);

/// The "model name" of /proc/cpuinfo.
std::string cpu_model();
/// Cores this process may run on.
int allowed_cores();

}  // namespace smelt::profile
