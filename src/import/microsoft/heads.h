// What the rules of the attention operators share: heads, masks, and the attention itself from its parts.
#pragma once

#include "import/microsoft/call.h"

namespace smelt::importer::microsoft {

using Name = std::string;

/// [B, S, H * D] → [B, H, S, D].
Name split_heads(Call& c, const Name& x, int64_t heads);
/// Element `i` of a tensor's shape, as a vector of one.
Name extent_of(Call& c, const Name& x, int64_t i);
/// 0 to n - 1, int64, of a length that is a vector of one.
Name positions(Call& c, const Name& length);
/// x without its axis `axis`, at index `at` of it.
Name at(Call& c, const Name& x, int64_t axis, int64_t index);
Name unsqueeze(Call& c, const Name& x, const std::vector<int64_t>& axes);
/// What is added to scores: 0 where `allowed`, `otherwise` elsewhere. Of the element type of input 0.
Name additive(Call& c, const Name& allowed, double otherwise);
/// a + b, or the one that is there, or "".
Name sum(Call& c, const Name& a, const Name& b);

/// What hides keys in Attention, MultiHeadAttention and QAttention.
struct Masks {
  int index = -1;       // the input with the mask, of any of its forms
  int bias = -1;        // the input that is added to the scores
  bool causal = false;  // the query at row i sees the keys up to (keys - queries) + i
};
/// What is added to the scores of q [B, H, S, D] and k [B, H, T, D], broadcast to [B, H, S, T]; "" where nothing is.
Name added_to_scores(Call& c, const Masks& masks, const Name& q, const Name& k);

/// q kᵀ by the attribute `scale`, or by 1 / sqrt(D) where it is 0 or left out. `size`: D, where it is known.
Name scores(Call& c, const Name& q, const Name& k, std::optional<int64_t> size);
/// The call becomes softmax(scores) v, as [B, S, H * D].
void become_attention(Call& c, const Name& scores, const Name& v);

}  // namespace smelt::importer::microsoft
