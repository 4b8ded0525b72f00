// Images in blocks of 32 channels, [N, C / 32, spatial…, 32], as libraries of 8-bit integers have them (NCHW32): ai.smelt's QLinearConv
// with the attribute `blocked` reads and writes such tensors, and its operands are broadcast to them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "smelt/tensor.h"

namespace smelt::ops {

inline constexpr int64_t channel_block = 32;

/// [N, C, spatial…] of [N, C / 32, spatial…, 32].
inline Shape without_blocks(const Shape& s) {
  if (s.size() < 4 || s.back() != channel_block)
    fail("an image of shape {} in blocks, expected [N, C / {}, spatial…, {}]", to_string(s), channel_block, channel_block);
  Shape whole(s.begin(), s.end() - 1);
  whole[1] *= channel_block;
  return whole;
}
/// The other way round.
inline Shape in_blocks(const Shape& s) {
  if (s[1] % channel_block != 0) fail("{} channels, expected a multiple of {}, the channels of a block", s[1], channel_block);
  Shape blocked = s;
  blocked[1] /= channel_block;
  blocked.push_back(channel_block);
  return blocked;
}
/// Transposes [N, C / 32, spatial…, 32] to [N, C / 32, 32, spatial…].
inline std::vector<int64_t> channels_of_blocks(size_t spatial) {
  std::vector<int64_t> perm{0, 1, static_cast<int64_t>(spatial) + 2};
  for (size_t a = 0; a < spatial; ++a) perm.push_back(static_cast<int64_t>(a) + 2);
  return perm;
}
/// And back.
inline std::vector<int64_t> blocks_of_channels(size_t spatial) {
  std::vector<int64_t> perm{0, 1};
  for (size_t a = 0; a < spatial; ++a) perm.push_back(static_cast<int64_t>(a) + 3);
  perm.push_back(2);
  return perm;
}

}  // namespace smelt::ops
