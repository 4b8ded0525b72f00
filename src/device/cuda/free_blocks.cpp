#include "device/cuda/free_blocks.h"

#include <algorithm>
#include <utility>

namespace smelt::device::cuda {

void FreeBlocks::add(FreeBlock block) {
  const int64_t bytes = block.bytes;
  blocks_.emplace(bytes, std::move(block));
}

std::optional<FreeBlock> FreeBlocks::take(int64_t bytes, std::optional<abi::Stream> stream) {
  for (auto at = blocks_.lower_bound(bytes); at != blocks_.end() && at->first <= bytes + bytes / 8; ++at) {
    std::vector<StreamUse>& uses = at->second.uses;
    std::erase_if(uses, [](const StreamUse& u) { return u.end->passed(); });
    if (!std::ranges::all_of(uses, [&](const StreamUse& u) { return stream && u.stream == *stream; })) continue;
    FreeBlock block = std::move(at->second);
    blocks_.erase(at);
    return block;
  }
  return std::nullopt;
}

std::vector<FreeBlock> FreeBlocks::take_all() {
  std::vector<FreeBlock> all;
  for (auto& [bytes, block] : blocks_) all.push_back(std::move(block));
  blocks_.clear();
  return all;
}

}  // namespace smelt::device::cuda
