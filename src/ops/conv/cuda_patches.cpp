// Convolutions as a product of matrices, a row for each window, for which the product's own tactics are asked:
//
//   patches   windows that lie side by side, each pixel in one of them (a vision transformer's): the pixels are laid out window by window
//             first
//   lines     windows each of which is one run of memory (a spectrum of one signal): the rows are read where they lie, and overlap; where
//             there is padding, in a copy of the image that has it
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/conv/between_copies.h"
#include "ops/conv/cuda_request.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cpu/strided_copy.h"
#include "ops/movement/cuda_axes.h"
#include "ops/movement/cuda_strided_copy.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t most_of_a_tactic = 4;  // configurations
constexpr int64_t few_channels = 16;     // kernels go tap by tap, by as many channels at a time at least

/// What it is inside: a convolution by windows of one pixel over images whose channels are a window's pixels.
struct Rows {
  std::shared_ptr<const Node> own;
  BoundNode node;
  bool reordered = false;  // the weights are not as the model has them
  Offer copy, product;     // copy: no candidates where the image is read where it lies
  int64_t copied = 0;      // bytes
};

std::optional<Refusal> rejects(const GpuRequest& r, std::string_view what) {
  const Problem& p = r.problem;
  if (p.transposed || p.group != 1 || p.blocked || p.quantization || p.x.size() > 1 || p.x[0].upsample != 1)
    return refuse(Reason::unsupported, "{}: transposed, upsampled, of groups, of integers or of several inputs", what);
  if (!r.weight().constant.valid()) return refuse(Reason::not_constant, "{}: weights that are not constant", what);
  if (elements(p.y) == 0 || elements(p.w) == 0) return refuse(Reason::wrong_shape, "{}: an empty tensor", what);
  if (elements(spatial_of(p.w)) == 1) return refuse(Reason::wrong_shape, "{}: windows of one pixel", what);
  return std::nullopt;
}

std::optional<Refusal> lies_apart(const Problem& p) {
  const Shape taps = spatial_of(p.w);
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

/// Whether an image's channels lie side by side, and so behind a window's taps.
bool channels_last(const Problem& p, const Shape& steps) { return steps[1] == 1 && p.w[1] > 1; }

/// The node over `image`, [N, K, places…].
Result<std::shared_ptr<Rows>> rows_of(const GpuRequest& r, BoundTensor image, bool last, std::string_view what) {
  const Problem& p = r.problem;
  const size_t spatial = p.spatial(), axes = spatial < 3 ? spatial : 1;
  auto own = std::make_shared<Node>(*r.node.node);
  for (const char* attribute : {"kernel_shape", "strides", "dilations"}) own->attrs[attribute] = std::vector<int64_t>(axes, 1);
  own->attrs["pads"] = std::vector<int64_t>(2 * axes, 0);
  own->attrs.erase("auto_pad");
  auto made = std::make_shared<Rows>();
  made->own = own;
  made->reordered = last;
  made->node = r.node;
  made->node.node = own.get();
  const int64_t k = image.shape[1];
  made->node.inputs[r.at.x] = std::move(image);
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
    if (!one) return refuse(Reason::wrong_layout, "{}: input {} has gaps", what, i);
    made->node.inputs[i] = *one;
  }
  const auto y = along_one_axis(made->node.outputs[0], spatial);
  if (!y) return refuse(Reason::wrong_layout, "{}: a result with gaps", what);
  made->node.outputs[0] = *y;
  return made;
}

Result<std::shared_ptr<Rows>> patches_of(const GpuRequest& r) {
  const Problem& p = r.problem;
  const BoundTensor& x = r.node.inputs[r.at.x];
  const Shape taps = spatial_of(p.w), out = spatial_of(p.y), steps = memory_strides(x);
  const size_t spatial = taps.size();
  const int64_t n = p.y[0], channels = p.w[1], k = channels * elements(taps), places = elements(out);
  const bool last = channels_last(p, steps);
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

  BoundTensor image = {.type = x.type, .shape = {n, k}, .layout = Layout::nhwc};
  image.shape.insert(image.shape.end(), out.begin(), out.end());
  auto made = rows_of(r, image, last, "patches");
  if (!made) return made;
  BoundTensor dense = image;
  dense.layout = Layout::plain;
  const BoundNode copy{nullptr, {x}, {dense}, nullptr};
  offer_moves_cuda(copy, {std::move(move)}, *r.gpu, (*made)->copy);
  if ((*made)->copy.candidates.empty()) return (*made)->copy.refused.front().why.at("patches");
  (*made)->copied = storage_bytes(image);
  return made;
}

/// The image with its padding in place.
BoundTensor padded_image(const Problem& p, const BoundTensor& x) {
  BoundTensor padded{.type = x.type, .shape = x.shape, .layout = x.layout};
  for (size_t a = 0; a < p.spatial(); ++a) padded.shape[a + 2] += p.pad_begin[a] + p.pad_end[a];
  return padded;
}

/// Copies x there, zeros around it.
Offer padding_copy(const GpuRequest& r, const BoundTensor& padded) {
  const Problem& p = r.problem;
  const BoundTensor& x = r.node.inputs[r.at.x];
  std::vector<MappedAxis> axes = axes_of(x, padded);
  for (size_t a = 0; a < p.spatial(); ++a) {
    if (p.pad_begin[a] == 0 && p.pad_end[a] == 0) continue;
    for (int64_t i = 0; i < padded.shape[a + 2]; ++i) {
      const int64_t place = i - p.pad_begin[a];
      axes[a + 2].places.push_back(place < x.shape[a + 2] ? std::max<int64_t>(place, -1) : -1);
    }
  }
  Offer copy;
  offer_by_axes(std::move(axes), {nullptr, {x}, {padded}, nullptr}, {}, "pad", *r.gpu, copy);
  return copy;
}

Result<std::shared_ptr<Rows>> lines_of(const GpuRequest& r) {
  const Problem& p = r.problem;
  const BoundTensor& x = r.node.inputs[r.at.x];
  const Shape taps = spatial_of(p.w), out = spatial_of(p.y);
  if (p.spatial() > 2) return refuse(Reason::wrong_rank, "lines: {} spatial axes, expected 1 or 2", p.spatial());
  if (p.w[1] > few_channels) return refuse(Reason::too_large, "lines: {} channels, expected at most {}", p.w[1], few_channels);
  const auto any = [](const Shape& s) { return std::ranges::any_of(s, [](int64_t pad) { return pad > 0; }); };
  const bool pads = any(p.pad_begin) || any(p.pad_end);
  const BoundTensor from = pads ? padded_image(p, x) : x;
  if (elements(from.shape) >= int64_t{1} << 31)
    return refuse(Reason::too_large, "lines: an image of {} elements; it counts to 2^31", elements(from.shape));
  const Shape steps = memory_strides(from);
  const bool last = channels_last(p, steps);
  int64_t run = 1;  // elements of a window that lie side by side, innermost axis first
  bool whole = true;
  const auto axis = [&](int64_t extent, int64_t step) {
    whole = whole && (extent == 1 || step == run);
    run *= extent;
  };
  if (last) axis(p.w[1], steps[1]);
  for (size_t a = p.spatial(); a-- > 0;) axis(taps[a], steps[a + 2] * p.dilation[a]);
  if (!last) axis(p.w[1], steps[1]);
  if (!whole) return refuse(Reason::wrong_layout, "lines: a window's pixels do not lie side by side");
  BoundTensor image = {.type = x.type, .shape = {p.y[0], run}, .layout = Layout::nhwc};
  image.shape.insert(image.shape.end(), out.begin(), out.end());
  image.strides = {steps[0], 1};
  for (size_t a = 0; a < p.spatial(); ++a) image.strides.push_back(steps[a + 2] * p.stride[a]);
  image.alignment = from.alignment;
  auto made = rows_of(r, image, last, "lines");
  if (!made || !pads) return made;
  (*made)->copy = padding_copy(r, from);
  if ((*made)->copy.candidates.empty()) return (*made)->copy.refused.front().why.at("lines");
  (*made)->copied = storage_bytes(from);
  return made;
}

/// Adds what multiplies the rows; with `maps` by tensor maps too.
void offer_rows(const SharedRequest& r, const std::shared_ptr<Rows>& rows, const std::string& name, bool maps, Offer& offer) {
  Machine machine;
  machine.gpu = r->gpu;
  const auto product = gpu_request(rows->node, machine);
  if (!product) return offer.refuse("cuda", product.refusal().at(name));
  rows->product.problem = offer.problem;
  for (const auto tactic : {offer_walked, offer_implicit_cuda}) tactic(*product, rows->product);
  // Its products read the weights that the model has; the others pack the ones that they are given.
  if (maps && !rows->reordered) offer_hopper(*product, rows->product);
  std::vector<Candidate>& ways = rows->product.candidates;
  std::ranges::stable_sort(ways, {}, &Candidate::estimate_us);
  const Candidate* const copy = fastest(rows->copy);
  std::map<std::string, int64_t> of_tactic;
  for (size_t c = 0; c < ways.size(); ++c) {
    if (++of_tactic[ways[c].tactic] > most_of_a_tactic) continue;
    offer.candidates.push_back(
        {ways[c].tactic, name + " " + ways[c].config, ways[c].estimate_us + (copy ? copy->estimate_us : 0), [r, rows, c] {
           std::vector<BetweenCopies::Copy> before;
           if (const Candidate* const first = fastest(rows->copy)) before.push_back({r->at.x, 0, first->prepare()});
           return std::make_unique<BetweenCopies>(std::move(before), std::nullopt, rows->product.candidates[c].prepare(),
                                                  device_aligned(rows->copied));
         }});
  }
}

}  // namespace

void offer_patches(const SharedRequest& r, Offer& offer) {
  auto why = rejects(*r, "patches");
  if (!why) why = lies_apart(r->problem);
  if (why) return offer.refuse("cuda", *why);
  const auto found = patches_of(*r);
  if (!found) return offer.refuse("cuda", found.refusal());
  offer_rows(r, *found, "patches", true, offer);
}

void offer_lines(const SharedRequest& r, Offer& offer) {
  if (const auto why = rejects(*r, "lines")) return offer.refuse("cuda", *why);
  const auto found = lines_of(*r);
  if (!found) return offer.refuse("cuda", found.refusal());
  offer_rows(r, *found, "lines", false, offer);
}

}  // namespace smelt::ops::conv
