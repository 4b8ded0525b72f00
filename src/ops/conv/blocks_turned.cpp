#include "ops/conv/blocks_turned.h"

#include <algorithm>
#include <limits>

#include "ops/conv/between_copies.h"
#include "ops/core/align.h"
#include "ops/core/channel_blocks.h"
#include "ops/core/strides.h"
#include "ops/cuda/gpu.h"
#include "ops/movement/cuda_strided_copy.h"

namespace smelt::ops::conv {
namespace {

/// Of ai.smelt's QLinearConv of one image.
constexpr size_t first_operand = 7;

/// A tensor in blocks as a channels-last image; a copy of it, one way or the other.
struct Turn {
  size_t input;  // of the node; its result where there is none
  BoundTensor blocks, image;
  Offer offer;
};

/// [N, H, W, C] in memory, seen as [N, C / 32, H, W, 32].
Shape block_strides(const Shape& blocks) {
  const size_t rank = blocks.size();
  Shape strides(rank, 1);
  strides[1] = channel_block;
  int64_t step = blocks[1] * channel_block;
  for (size_t a = rank - 1; a-- > 2;) strides[a] = step, step *= blocks[a];
  strides[0] = step;
  return strides;
}

Turn turn(const BoundTensor& t, size_t input, bool back, const Machine& machine) {
  Turn made{input, t, t, {}};
  made.image.shape = without_blocks(t.shape);
  made.image.layout = Layout::nhwc;
  made.image.strides.clear();
  made.image.alignment = BoundTensor{}.alignment;
  BoundTensor view = made.image;
  view.shape = t.shape;
  view.layout = Layout::plain;
  view.strides = block_strides(t.shape);
  const BoundNode copy{nullptr, {back ? view : t}, {back ? t : view}, nullptr};
  offer_moves_cuda(copy, {{t.shape, memory_strides(copy.inputs[0]), memory_strides(copy.outputs[0])}}, *machine.gpu, made.offer);
  return made;
}

/// The problem inside: what of it is copied, and what it is then.
struct Inside {
  std::shared_ptr<const Node> own;
  BoundNode node;
  std::vector<Turn> before;
  Turn behind;
  Offer offer;
};

Result<std::shared_ptr<Inside>> inside_of(const BoundNode& node, const Machine& machine) {
  auto own = std::make_shared<Node>(*node.node);
  own->attrs.erase("blocked");
  auto made = std::make_shared<Inside>();
  made->own = own;
  made->node = node;
  made->node.node = own.get();
  made->before.push_back(turn(node.inputs[0], 0, false, machine));
  made->behind = turn(node.outputs[0], node.inputs.size(), true, machine);
  const Shape& y = node.outputs[0].shape;
  for (size_t i = first_operand; i < node.inputs.size(); ++i) {
    BoundTensor& t = made->node.inputs[i];
    if (!node.has(i) || elements(t.shape) == 1) continue;
    Shape channels(y.size() - 1, 1);  // one number a channel, as blocks have them
    channels.front() = y[1];
    channels.back() = channel_block;
    if (t.shape == y && !t.constant.valid()) {
      made->before.push_back(turn(t, i, false, machine));
    } else if (t.shape == channels) {
      t.shape.assign(y.size() - 2, 1);
      t.shape.front() = y[1] * channel_block;
      if (t.constant.valid()) t.constant = t.constant.reshaped(t.shape);
    } else {
      return refuse(Reason::wrong_shape, "{}: operand {} has shape {}, neither the result's nor one number a channel",
                    blocks_turned, i - first_operand + 1, to_string(t.shape));
    }
  }
  for (const Turn& t : made->before) made->node.inputs[t.input] = t.image;
  made->node.outputs[0] = made->behind.image;
  return made;
}

}  // namespace

void offer_blocks_turned(const BoundNode& node, const Machine& machine, OfferTactics offer, Offer& o) {
  auto found = inside_of(node, machine);
  if (!found) return o.refuse("cuda", found.refusal());
  const std::shared_ptr<Inside> inside = *found;
  double copies = 0;
  for (const Turn& t : inside->before) {
    if (!fastest(t.offer)) return o.refuse("cuda", t.offer.refused.front().why.at(blocks_turned));
    copies += fastest(t.offer)->estimate_us;
  }
  if (!fastest(inside->behind.offer)) return o.refuse("cuda", inside->behind.offer.refused.front().why.at(blocks_turned));
  copies += fastest(inside->behind.offer)->estimate_us;
  offer(inside->node, machine, inside->offer);
  std::ranges::stable_sort(inside->offer.candidates, {}, &Candidate::estimate_us);
  std::vector<std::string> tactics;
  for (size_t c = 0; c < inside->offer.candidates.size(); ++c) {
    const Candidate& inner = inside->offer.candidates[c];
    if (std::ranges::find(tactics, inner.tactic) != tactics.end()) continue;
    tactics.push_back(inner.tactic);
    o.candidates.push_back({inner.tactic, inner.config + " " + std::string(blocks_turned), inner.estimate_us + copies,
                            [inside, c] {
                              int64_t images = 0;
                              const auto copy = [&](const Turn& t) {
                                const int64_t at = images;
                                images += device_aligned(storage_bytes(t.image));
                                return BetweenCopies::Copy{t.input, at, fastest(t.offer)->prepare()};
                              };
                              std::vector<BetweenCopies::Copy> before;
                              for (const Turn& t : inside->before) before.push_back(copy(t));
                              BetweenCopies::Copy behind = copy(inside->behind);
                              return std::make_unique<BetweenCopies>(std::move(before), std::move(behind),
                                                                     inside->offer.candidates[c].prepare(), images);
                            },
                            inner.lengthy});
  }
}

void price_blocks(const BoundNode& node, Offer& o) {
  const BoundTensor &x = node.inputs[0], &y = node.outputs[0];
  const auto whole = [](const BoundTensor& t) {
    return t.layout == Layout::nhwc && t.strides.empty() && t.shape.size() == 4 && t.shape[1] % channel_block == 0;
  };
  if (!whole(x) || !whole(y) || node.node->get_int("group", 1) != 1 || node.node->get_int("segments", 1) != 1) return;
  double walked = std::numeric_limits<double>::infinity(), least = walked;
  for (const Candidate& c : o.candidates) {
    least = std::min(least, c.estimate_us);
    if (c.tactic == "walked") walked = std::min(walked, c.estimate_us);
  }
  if (walked == std::numeric_limits<double>::infinity()) return;
  o.refuse("walked", Reason::not_profitable,
           "nchw32: images in blocks of {} channels have this kernel alone, whose guess is {:.1f} us in both layouts; "
           "channels-last, which "
           "other kernels take too, is guessed at {:.1f} us",
           channel_block, walked, least);
}

}  // namespace smelt::ops::conv
