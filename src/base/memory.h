// How much memory an allocation may take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "smelt/dtype.h"
#include "smelt/shape.h"

namespace smelt {

/// Bytes that this process can still get: what the system calls available, at most what its control groups' limits leave. The
/// largest int64_t where neither is known.
int64_t available_memory();

/// What the memory limits of a process' control groups, as /proc/self/cgroup lists them, leave of what they allow, less what the
/// groups hold; groups lie below `root`. The largest int64_t without a limit.
int64_t group_memory(const std::string& groups, const std::filesystem::path& root);

/// Throws Error when a tensor of that many bytes takes more than available_memory(): the system would promise them and end the
/// process when they are written. Tensors below 64 MiB are added up, and looked at once they are as much together: many of them take as
/// much as a large one.
void check_available(int64_t bytes, DType type, const Shape& shape);

}  // namespace smelt
