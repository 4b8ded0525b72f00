// Convolutions whose windows lie side by side, each pixel in one of them (the patches of a vision transformer): the pixels are laid out
// window by window, and a product of matrices is left, for which its own tactics are asked.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/conv/between_copies.h"
#include "ops/conv/cuda_request.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cpu/strided_copy.h"
#include "ops/movement/cuda_strided_copy.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t most_of_a_tactic = 4;  // configurations

/// What it is inside: a convolution by windows of one pixel over images whose channels are a window's pixels.
struct Patches {
  std::shared_ptr<const Node> own;
  BoundNode node;
  bool reordered = false;  // the weights are not as the model has them
  Offer copy, product;
};

std::optional<Refusal> rejects(const GpuRequest& r) {
  const Problem& p = r.problem;
  if (p.transposed || p.group != 1 || p.blocked || p.quantization || p.x.size() > 1 || p.x[0].upsample != 1)
    return refuse(Reason::unsupported, "patches: transposed, upsampled, of groups, of integers or of several inputs");
  if (!r.weight().constant.valid()) return refuse(Reason::not_constant, "patches: weights that are not constant");
  if (elements(p.y) == 0 || elements(p.w) == 0) return refuse(Reason::wrong_shape, "patches: an empty tensor");
  const Shape taps = spatial_of(p.w);
  if (elements(taps) == 1) return refuse(Reason::wrong_shape, "patches: windows of one pixel");
  for (size_t a = 0; a < taps.size(); ++a)
    if (p.stride[a] != taps[a] || p.pad_begin[a] != 0 || p.pad_end[a] != 0 || (p.dilation[a] != 1 && taps[a] != 1))
      return refuse(Reason::wrong_attribute, "patches: windows of {} pixels, {} apart, that do not lie side by side", taps[a],
                    p.stride[a]);
  return std::nullopt;
}

/// Three spatial axes as one. Of tensors that have no gaps.
std::optional<BoundTensor> along_one_axis(const BoundTensor& t, size_t spatial) {
  if (t.type == DType::undefined || spatial < 3 || t.shape.size() < spatial) return t;
  if (!t.strides.empty()) return std::nullopt;
  BoundTensor one = t;
  const int64_t pixels =
      std::accumulate(t.shape.end() - static_cast<std::ptrdiff_t>(spatial), t.shape.end(), int64_t{1}, std::multiplies<>());
  one.shape.resize(t.shape.size() - spatial);
  one.shape.push_back(pixels);
  if (t.constant.valid()) one.constant = t.constant.reshaped(one.shape);
  return one;
}

/// Weights [M, C, taps…] as [M, taps…, C].
Tensor channels_behind_taps(const Tensor& w) {
  const Shape& s = w.shape();
  const int64_t taps = elements(s) / (s[0] * s[1]);
  Tensor to = Tensor::empty(w.type(), {s[0], taps * s[1]});
  StridedCopy({s[0], s[1], taps}, {s[1] * taps, taps, 1}, {s[1] * taps, 1, s[1]}, bytes(w.type(), 1), 1).run(to.raw(), w.raw());
  return to;
}

Result<std::shared_ptr<Patches>> patches_of(const GpuRequest& r) {
  const Problem& p = r.problem;
  const BoundTensor& x = r.node.inputs[r.at.x];
  const Shape taps = spatial_of(p.w), out = spatial_of(p.y), steps = memory_strides(x);
  const size_t spatial = taps.size();
  const int64_t n = p.y[0], channels = p.w[1], k = channels * elements(taps), places = elements(out);
  const bool last = steps[1] == 1 && channels > 1;  // the image's channels lie side by side
  // [N, places…, (C,) taps…(, C)]
  StridedMove move{{n}, {steps[0]}, {places * k}};
  const auto axis = [&](int64_t extent, int64_t from, int64_t to) {
    move.extents.push_back(extent), move.from.push_back(from), move.to.push_back(to);
  };
  int64_t to = places * k;
  for (size_t a = 0; a < spatial; ++a) axis(out[a], steps[a + 2] * taps[a], to /= out[a]);
  if (!last) axis(channels, steps[1], to /= channels);
  for (size_t a = 0; a < spatial; ++a) axis(taps[a], steps[a + 2], to /= taps[a]);
  if (last) axis(channels, 1, 1);

  auto own = std::make_shared<Node>(*r.node.node);
  const size_t axes = spatial < 3 ? spatial : 1;
  for (const char* attribute : {"kernel_shape", "strides", "dilations"}) own->attrs[attribute] = std::vector<int64_t>(axes, 1);
  own->attrs["pads"] = std::vector<int64_t>(2 * axes, 0);
  own->attrs.erase("auto_pad");
  auto made = std::make_shared<Patches>();
  made->own = own;
  made->reordered = last;
  made->node = r.node;
  made->node.node = own.get();
  BoundTensor& image = made->node.inputs[r.at.x];
  image = {.type = x.type, .shape = {n, k}, .layout = Layout::nhwc};
  image.shape.insert(image.shape.end(), out.begin(), out.end());
  BoundTensor& w = made->node.inputs[r.at.w];
  const Tensor constant = w.constant;
  const auto behind = [&constant] { return channels_behind_taps(constant); };
  w.constant = !last            ? constant
               : r.node.weights ? r.node.weights->packed(constant, "conv:channels behind taps", behind)
                                : behind();
  w.shape.assign(2 + spatial, 1);
  w.shape[0] = p.w[0], w.shape[1] = k;
  w.constant = w.constant.reshaped(w.shape);
  for (size_t i = 0; i < made->node.inputs.size(); ++i) {
    if (i == r.at.b) continue;
    const auto one = along_one_axis(made->node.inputs[i], spatial);
    if (!one) return refuse(Reason::wrong_layout, "patches: input {} has gaps", i);
    made->node.inputs[i] = *one;
  }
  const auto y = along_one_axis(made->node.outputs[0], spatial);
  if (!y) return refuse(Reason::wrong_layout, "patches: a result with gaps");
  made->node.outputs[0] = *y;
  BoundTensor dense = image;
  dense.layout = Layout::plain;
  const BoundNode copy{nullptr, {x}, {dense}, nullptr};
  offer_moves_cuda(copy, {std::move(move)}, *r.gpu, made->copy);
  if (made->copy.candidates.empty()) return made->copy.refused.front().why.at("patches");
  return made;
}

}  // namespace

void offer_patches(const SharedRequest& r, Offer& offer) {
  if (auto why = rejects(*r)) return offer.refuse("cuda", *why);
  auto found = patches_of(*r);
  if (!found) return offer.refuse("cuda", found.refusal());
  const std::shared_ptr<Patches> patches = *found;
  Machine machine;
  machine.gpu = r->gpu;
  const auto product = gpu_request(patches->node, machine);
  if (!product) return offer.refuse("cuda", product.refusal().at("patches"));
  patches->product.problem = offer.problem;
  for (const auto tactic : {offer_walked, offer_implicit_cuda}) tactic(*product, patches->product);
  // Its products read the weights that the model has; the others pack the ones that they are given.
  if (!patches->reordered) offer_hopper(*product, patches->product);
  std::vector<Candidate>& ways = patches->product.candidates;
  std::ranges::stable_sort(ways, {}, &Candidate::estimate_us);
  const double copy = fastest(patches->copy)->estimate_us;
  std::map<std::string, int64_t> of_tactic;
  for (size_t c = 0; c < ways.size(); ++c) {
    if (++of_tactic[ways[c].tactic] > most_of_a_tactic) continue;
    offer.candidates.push_back({ways[c].tactic, "patches " + ways[c].config, ways[c].estimate_us + copy, [r, patches, c] {
                                  std::vector<BetweenCopies::Copy> before;
                                  before.push_back({r->at.x, 0, fastest(patches->copy)->prepare()});
                                  const int64_t bytes = device_aligned(storage_bytes(patches->node.inputs[r->at.x]));
                                  return std::make_unique<BetweenCopies>(std::move(before), std::nullopt,
                                                                         patches->product.candidates[c].prepare(), bytes);
                                }});
  }
}

}  // namespace smelt::ops::conv
