#include "ops/conv/cuda_implicit_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/number.h"
#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cpu/strided_copy.h"

namespace smelt::ops::conv {
namespace {

/// Rows and columns: a line is an image of one row, a volume has its depth before them.
void plane(int64_t (&to)[2], const Shape& spatial, int64_t fill) {
  to[0] = spatial.size() >= 2 ? spatial[spatial.size() - 2] : fill;
  to[1] = spatial.back();
}

/// Of a transposed convolution: its phases, which are alike.
Result<PhaseAxes> like_phases(const GpuRequest& r) {
  const Problem& p = r.problem;
  if (p.x.size() > 1) return refuse(Reason::unsupported, "a transposed convolution of several inputs");
  for (size_t a = 0; a < p.spatial(); ++a)
    if (p.y[a + 2] % p.stride[a] != 0)
      return refuse(Reason::wrong_shape,
                    "a transposed convolution to {} pixels along axis {}, expected a multiple of its stride {}", p.y[a + 2],
                    a + 2, p.stride[a]);
  return phase_axes(p);
}

std::optional<Refusal> rejects(const GpuRequest& r, Groups groups, int64_t joined) {
  const Problem& p = r.problem;
  const bool half = p.input == DType::f16 || p.input == DType::bf16, integers = p.quantization.has_value();
  if (p.group != 1 && groups == Groups::refused) return refuse(Reason::wrong_attribute, "{} groups; it knows one", p.group);
  if (p.group != 1 && (p.transposed || p.x.size() > 1 || p.x[0].upsample != 1))
    return refuse(Reason::unsupported, "{} groups of a transposed convolution, of several inputs or of an upsampled one",
                  p.group);
  // A tile has 32 steps of K or more, and as many columns: of narrower groups most of them are zeros.
  constexpr int64_t few_channels = 8;
  if (p.group != 1 && p.w[1] * joined < few_channels)
    return refuse(Reason::wrong_shape, "groups of {} channels, expected at least {}", p.w[1], few_channels);
  if (p.spatial() > 3) return refuse(Reason::wrong_rank, "{} spatial axes, expected 1 to 3", p.spatial());
  const bool floats = half || p.input == DType::f32 || p.input == DType::f8e4m3fn;
  if (!integers && (!floats || r.weight().type != p.input))
    return refuse(Reason::wrong_type, "{} by {}", smelt::name(p.input), smelt::name(r.weight().type));
  if (!r.weight().constant.valid()) return refuse(Reason::not_constant, "weights that are not constant");
  if (elements(p.y) == 0 || elements(p.w) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  if (p.x.size() > size_t{ImplicitProblem::most_segments})
    return refuse(Reason::too_large, "{} inputs, expected at most {}", p.x.size(), ImplicitProblem::most_segments);
  for (const Input& x : p.x) {
    if (!std::has_single_bit(static_cast<uint64_t>(x.upsample)))
      return refuse(Reason::unsupported, "upsampling by {}, expected a power of 2", x.upsample);
    if (elements(x.shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  }
  for (size_t i = 0; i < p.x.size(); ++i)
    if (const int64_t span = storage_bytes(r.node.inputs[i]) / bytes(p.input, 1); span >= int64_t{1} << 31)
      return refuse(Reason::too_large, "an image that spans {} elements; it counts to 2^31", span);
  return std::nullopt;
}

/// Elements of the widest access that all of these are multiples of.
int64_t common_width(std::initializer_list<int64_t> counts, int64_t element) {
  int64_t width = 16 / element;
  for (const int64_t c : counts)
    while (c % width != 0) width /= 2;
  return width;
}

int64_t whole_tiles(int64_t count, int64_t tile) { return (count + tile - 1) / tile * tile; }

/// Whether axes of the image, `inner` elements of the inner one, are one axis in memory.
bool follow_each_other(int64_t outer, int64_t outer_step, int64_t inner, int64_t inner_step) {
  return outer == 1 || inner == 1 || outer_step == inner * inner_step;
}

/// The planes of a volume as images, where windows have one plane, each its own; or as rows, where they have one pixel of a plane, each
/// its own. The pixels' order stays.
void flatten(ImplicitProblem& q) {
  const AlongAxis depth = q.along(0), height = q.along(1), width = q.along(2);
  if (std::ranges::any_of(q.segments, [](const ImageSegment& s) { return s.shift != 0; })) return;
  if (depth.each_its_own() && std::ranges::all_of(q.segments, [&](const ImageSegment& s) {
        return follow_each_other(q.n, s.image, depth.in, s.plane);
      })) {
    if (depth.in > 1)
      for (ImageSegment& s : q.segments) s.image = s.plane;
    q.n *= depth.in;
  } else if (height.each_its_own() && width.each_its_own() && std::ranges::all_of(q.segments, [&](const ImageSegment& s) {
               return follow_each_other(height.in, s.row, width.in, s.pixel);
             })) {
    for (ImageSegment& s : q.segments) {
      if (width.in == 1) s.pixel = s.row;
      s.row = s.plane;
    }
    q.out_width = q.in_width = height.in * width.in;
    q.out_height = depth.out, q.in_height = depth.in;
    q.stride[0] = depth.stride, q.pad[0] = depth.pad, q.dilation[0] = depth.dilation, q.taps[0] = depth.taps;
  } else {
    return;
  }
  q.depth.reset();
}

}  // namespace

AlongAxis ImplicitProblem::along(int axis) const {
  if (depth && axis-- == 0) return *depth;
  return {.out = axis == 0 ? out_height : out_width,
          .in = axis == 0 ? in_height : in_width,
          .stride = stride[axis],
          .pad = pad[axis],
          .dilation = dilation[axis],
          .taps = taps[axis]};
}

int64_t ImplicitProblem::k(int64_t tile) const {
  int64_t sum = 0;
  for (const ImageSegment& s : segments) sum += tap_count() * whole_tiles(s.channels, tile);
  return sum;
}

Result<ImplicitProblem> implicit_problem(const GpuRequest& r, Groups groups, int64_t joined) {
  if (auto why = rejects(r, groups, joined)) return *why;
  const Problem& p = r.problem;
  ImplicitProblem q;
  q.type = p.input;
  q.joined = joined;
  q.groups = p.group / joined;
  q.m = p.outputs() / q.groups;
  q.n = p.y[0];
  int64_t out[2], in[2];
  plane(out, spatial_of(p.y), 1);
  q.out_height = out[0];
  q.out_width = out[1];
  plane(q.stride, p.stride, 1);
  plane(q.pad, p.pad_begin, 0);
  plane(q.dilation, p.dilation, 1);
  plane(q.taps, spatial_of(p.w), 1);
  Shape grid = spatial_of(p.x[0].shape);
  for (int64_t& extent : grid) extent *= p.x[0].upsample;
  plane(in, grid, 1);
  q.in_height = in[0];
  q.in_width = in[1];
  if (p.spatial() == 3)
    q.depth = AlongAxis{
        .out = p.y[2], .in = grid[0], .stride = p.stride[0], .pad = p.pad_begin[0], .dilation = p.dilation[0], .taps = p.w[2]};
  const int64_t element = bytes(p.input, 1);
  if (p.transposed) {
    auto phases = like_phases(r);
    if (!phases) return phases.refusal();
    q.phases = *std::move(phases);
    const auto one_phase = [](int64_t& pixels, int64_t& taps, int64_t& apart, const std::vector<PhaseAlong>& along) {
      pixels = along.front().places;
      taps = std::ranges::max(along, {}, &PhaseAlong::taps).taps;
      if (along.size() > 1) apart = 1;
    };
    const size_t last = p.spatial() - 1;
    if (q.depth) one_phase(q.depth->out, q.depth->taps, q.depth->dilation, q.phases[0]);
    if (last > 0) one_phase(q.out_height, q.taps[0], q.dilation[0], q.phases[last - 1]);
    one_phase(q.out_width, q.taps[1], q.dilation[1], q.phases[last]);
  }
  if (copies_with_padding(p)) {
    constexpr int64_t channels = ImplicitProblem::padded_channels;
    q.padded = true;
    q.taps_w = q.taps[1];
    // Of integers, which zeros of the weights make zero whatever they are, whole copies are read.
    if (element == 1) q.taps[1] = whole_tiles(q.taps[1], 16 / channels);
    q.in_height = (q.out_height - 1) * q.stride[0] + (q.taps[0] - 1) * q.dilation[0] + 1;
    q.in_width = whole_tiles((q.out_width - 1) * q.stride[1] + q.taps[1], 4);  // rows begin on 16 bytes
    const auto row = static_cast<int32_t>(q.in_width * channels);
    q.segments = {{.x = nullptr,
                   .image = static_cast<int32_t>(q.in_height) * row,
                   .row = row,
                   .pixel = channels,
                   .channels = static_cast<int32_t>(q.taps[1] * channels),
                   .shift = 0,
                   .tiles = 0,
                   .plane = 0}};
    q.vec = common_width({q.stride[1] * channels, q.taps[1] * channels}, element);
    q.taps[1] = 1;
    q.pad[0] = q.pad[1] = 0;
    if (q.n * q.in_height * row >= int64_t{1} << 31)
      return refuse(Reason::too_large, "a padded image of {} elements; it counts to 2^31", q.n * q.in_height * row);
    return q;
  }
  q.vec = 16 / element;
  for (size_t i = 0; i < p.x.size(); ++i) {
    const BoundTensor& x = r.node.inputs[i];
    const Shape strides = five_strides(x);
    if (strides[1] != 1 && x.shape[1] > 1)
      return refuse(Reason::wrong_layout, "input {}, whose channels do not lie side by side", i);
    q.vec = std::min(q.vec, widest_channels(x));
    ImageSegment s{};
    s.image = static_cast<int32_t>(strides[0]);
    s.row = static_cast<int32_t>(strides[3]);
    s.pixel = static_cast<int32_t>(strides[4]);
    s.channels = static_cast<int32_t>(x.shape[1] / q.groups);
    while (q.groups > 1 && s.channels % q.vec != 0) q.vec /= 2;  // a group's begin behind another's
    s.shift = std::countr_zero(static_cast<uint64_t>(p.x[i].upsample));
    if (s.shift != 0 && p.spatial() == 1) return refuse(Reason::unsupported, "a line that is upsampled");
    s.plane = static_cast<int32_t>(strides[2]);
    q.segments.push_back(s);
  }
  if (q.depth && !q.transposed()) flatten(q);
  return q;
}

int64_t phases_of_all_taps(const std::vector<PhaseAlong>& along) {
  const int64_t most = std::ranges::max(along, {}, &PhaseAlong::taps).taps;
  return std::ranges::count(along, most, &PhaseAlong::taps);
}

ImplicitArguments implicit_arguments(const ImplicitProblem& p, const matmul::CudaConfig& c) {
  ImplicitArguments args{};
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  const int64_t k_tiles = p.k(c.tile_k) / c.tile_k;
  for (size_t i = 0; i < p.segments.size(); ++i) {
    args.segments[i] = p.segments[i];
    args.segments[i].tiles = narrow((p.segments[i].channels + c.tile_k - 1) / c.tile_k);
  }
  args.joined = narrow(p.joined);
  args.w_row = k_tiles * c.tile_k;
  args.w_batch = p.m * k_tiles * c.tile_k;
  args.m = static_cast<uint32_t>(p.pixels());
  args.n = static_cast<uint32_t>(p.m);
  args.tiles_n = static_cast<uint32_t>((p.m + c.tile_n - 1) / c.tile_n);
  args.tiles = static_cast<uint32_t>((p.pixels() + c.tile_m - 1) / c.tile_m) * args.tiles_n;
  args.k_tiles = narrow(k_tiles);
  args.split_tiles = narrow((k_tiles + c.splits - 1) / c.splits);
  set_geometry(args, p);
  std::ranges::transform(p.taps, args.taps, narrow);
  if (p.depth) args.taps_d = narrow(p.depth->taps);
  args.all_taps_d = 1;
  for (int axis = p.axes(), from = static_cast<int>(p.phases.size()); axis-- > 0;) {
    int32_t& all = axis == p.axes() - 3 ? args.all_taps_d : args.all_taps[axis - (p.axes() - 2)];
    all = --from < 0 ? 1 : narrow(phases_of_all_taps(p.phases[static_cast<size_t>(from)]));
  }
  return args;
}

matmul::CudaProblem implicit_product(const GpuRequest& r, const ImplicitProblem& p, int64_t tile) {
  matmul::CudaProblem product{{p.pixels(), p.m, p.k(tile), {p.batches()}, {}, {}}, p.type, p.type, implicit_epilogue(r, p), {}};
  product.a.vec = p.vec;
  product.b.vec = 16 / bytes(p.type, 1);
  product.a.batch = {0};
  product.b.batch = {1};
  for (const Input& x : r.problem.x) product.image_bytes += static_cast<double>(bytes(p.type, elements(x.shape)));
  return product;
}

namespace {

/// y as [N, groups, M, (D,) H, W]: rows N, D, H and W, batches the groups. Operands, which broadcast to it, likewise.
CudaEpilogue grouped_epilogue(const GpuRequest& r, const ImplicitProblem& p) {
  const size_t rank = r.problem.y.size();
  const auto apart = [&](BoundTensor t) {
    Shape shape(rank, 1), steps = broadcast_strides(t, rank);
    std::ranges::copy(t.shape, shape.end() - static_cast<std::ptrdiff_t>(t.shape.size()));
    const bool one = shape[1] == 1;
    shape[1] = one ? 1 : p.m;
    shape.insert(shape.begin() + 1, one ? 1 : p.groups);
    steps.insert(steps.begin() + 1, steps[1] * p.m);
    t.shape = std::move(shape), t.strides = std::move(steps), t.layout = Layout::plain;
    return t;
  };
  std::vector<EpilogueOperand> operands = r.operands;
  for (EpilogueOperand& o : operands) o.tensor = apart(std::move(o.tensor));
  return *CudaEpilogue::make(r.program, apart(r.node.outputs[0]), std::move(operands), {2, {1}}, 4);
}

/// y as [N, (D, SD,) H, SH, W, SW, M]: rows N, D, H and W of a phase, batches the phases along SD, SH and SW. Operands, which broadcast to
/// it, likewise.
CudaEpilogue phased_epilogue(const GpuRequest& r, const ImplicitProblem& p) {
  const size_t rank = r.problem.y.size();
  const Shape& phases = r.problem.stride;
  const auto apart = [&](BoundTensor t, const Shape& steps) {
    Shape shape(rank, 1);
    std::ranges::copy(t.shape, shape.end() - static_cast<std::ptrdiff_t>(t.shape.size()));
    t.shape = {shape[0]}, t.strides = {steps[0]}, t.layout = Layout::plain;
    for (size_t a = 0; a < phases.size(); ++a) {
      const bool one = shape[a + 2] == 1;
      t.shape.insert(t.shape.end(), {one ? 1 : shape[a + 2] / phases[a], one ? 1 : phases[a]});
      t.strides.insert(t.strides.end(), {steps[a + 2] * phases[a], steps[a + 2]});
    }
    t.shape.push_back(shape[1] == 1 ? 1 : p.m);
    t.strides.push_back(steps[1]);
    return t;
  };
  EpilogueAxes axes{1 + 2 * phases.size(), {}};
  for (size_t a = 0; a < phases.size(); ++a) axes.batches.push_back(2 + 2 * a);
  std::vector<EpilogueOperand> operands = r.operands;
  for (EpilogueOperand& o : operands) o.tensor = apart(o.tensor, broadcast_strides(o.tensor, rank));
  const BoundTensor& y = r.node.outputs[0];
  return *CudaEpilogue::make(r.program, apart(y, memory_strides(y)), std::move(operands), axes, 4);
}

}  // namespace

CudaEpilogue implicit_epilogue(const GpuRequest& r, const ImplicitProblem& p) {
  if (p.groups > 1) return grouped_epilogue(r, p);
  if (!p.transposed()) return r.epilogue(4);
  return phased_epilogue(r, p);
}

namespace {

/// Every phase's taps as [phases, M, K], the missing ones of those that have fewer than others before them.
void pack_phases(char* to, const Tensor& w, const ImplicitProblem& p, int64_t tile) {
  const int64_t size = bytes(w.type(), 1), k = p.k(tile), channels = w.shape()[0], span = whole_tiles(channels, tile);
  const size_t axes = p.phases.size();
  Shape taps, stride;
  for (const auto& along : p.phases) {
    taps.push_back(std::ranges::max(along, {}, &PhaseAlong::taps).taps);
    stride.push_back(static_cast<int64_t>(along.size()));
  }
  const Shape steps = strides(taps);
  for (int64_t i = 0; i < p.batches(); ++i, to += p.m * k * size) {
    const Phase phase = phase_at(p.phases, i);
    const int64_t own = elements(phase.taps);
    if (own == 0) continue;
    const Tensor packed = phase_weights(stride, 1, phase, w);  // [M, C, taps…]
    int64_t first = 0;
    Shape extents{p.m, channels}, from{channels * own, own}, at{k, 1};
    const Shape own_steps = strides(phase.taps);
    for (size_t a = 0; a < axes; ++a) {
      first += (taps[a] - phase.taps[a]) * steps[a] * span;
      extents.push_back(phase.taps[a]), from.push_back(own_steps[a]), at.push_back(steps[a] * span);
    }
    StridedCopy(extents, from, at, size, 1).run(to + first * size, packed.raw());
  }
}

}  // namespace

Key implicit_packing(const ImplicitProblem& p, int64_t tile) {
  Key key("conv:implicit");
  if (p.transposed()) {
    key.field("transposed").field(p.k(tile));
    for (int axis = 0; axis < p.axes(); ++axis) key.field(Shape{p.along(axis).stride, p.along(axis).pad});
    return key;
  }
  key.flag(":padded", p.padded).option(":joined", p.joined, int64_t{1});
  for (const ImageSegment& s : p.segments) key.field(s.channels).option("/", whole_tiles(s.channels, tile));
  return key;
}

Tensor implicit_weights(const Tensor& w, const ImplicitProblem& p, int64_t tile) {
  const int64_t size = bytes(w.type(), 1), k = p.k(tile);
  const Shape& s = w.shape();
  Tensor to = Tensor::empty(w.type(), {p.batches(), p.m, k});
  char* const out = static_cast<char*>(to.raw());
  const char* const from = static_cast<const char*>(w.raw());
  if (p.batches() * p.m * k != w.size()) std::memset(out, 0, static_cast<size_t>(to.nbytes()));
  if (p.transposed()) {
    pack_phases(out, w, p, tile);
    return to;
  }
  const int64_t columns = p.padded ? p.taps_w : p.taps[1];
  const int64_t rows = (p.depth ? p.depth->taps : 1) * p.taps[0], taps = rows * columns;  // of all planes
  int64_t base = 0, first = 0;  // of the segment: its place in K, its first channel
  for (const ImageSegment& segment : p.segments) {
    const int64_t span = whole_tiles(segment.channels, tile), channels = p.padded ? s[1] : segment.channels;
    const int64_t row = p.padded ? span : columns * span, column = p.padded ? ImplicitProblem::padded_channels : span;
    // Of several groups side by side each output has the channels of its own.
    const int64_t outputs = p.m / p.joined, own = p.joined > 1 ? s[1] : channels;
    for (int64_t j = 0; j < p.joined; ++j)
      StridedCopy({p.groups, outputs, rows, columns, own}, {p.m * s[1] * taps, s[1] * taps, columns, 1, taps},
                  {p.m * k, k, row, column, 1}, size, 1)
          .run(out + (base + j * (outputs * k + own)) * size, from + (first + j * outputs * s[1]) * taps * size);
    base += rows * row;
    first += channels;
  }
  return to;
}

std::shared_ptr<device::cuda::Memory> implicit_weights_there(const GpuRequest& r, const ImplicitProblem& p, int64_t tile) {
  const Tensor& w = r.weight().constant;
  return r.gpu->weights->packed(r.gpu->device, w, implicit_packing(p, tile).text(), [&] { return implicit_weights(w, p, tile); });
}

}  // namespace smelt::ops::conv
