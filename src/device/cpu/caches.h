// The processor's caches: how large they are, and memory put out of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace smelt::device::cpu {

/// Bytes of a core's own cache of the second level; 512 KiB where the system does not say.
int64_t core_cache_bytes();

/// Puts the bytes out of every cache of the processor, so that the next read of each comes from memory. Takes about as long as that
/// read, on processors before Skylake and Zen some 20 times as long. On processors other than x86-64 it does nothing.
void evict(std::span<const std::byte> memory);

}  // namespace smelt::device::cpu
