// First layers on tensor cores (src/kernels/conv/stem.cuh): f16, bf16 and 8-bit integers, generated for the filter, the rectangle of
// windows, what is pooled, and the program behind the sums. Those of integers are exact, in the order that cuda_walked.cpp has.
#include "ops/conv/cuda_stem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "kernels/conv/walked.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cuda/epilogue_width.h"
#include "ops/cuda/source.h"

namespace smelt::ops::conv {
namespace {

using kernels::stem_channels;
using Args = kernels::StemArgs<void>;

DType weights_type(const GpuRequest& r) { return r.problem.quantization ? DType::i8 : r.problem.input; }
int64_t element(const GpuRequest& r) { return bytes(r.problem.input, 1); }
Shape taps(const Problem& p) { return three(spatial_of(p.w), 1); }  // along D, H, W
Shape stride(const Problem& p) { return three(p.stride, 1); }
Shape dilation(const Problem& p) { return three(p.dilation, 1); }
int64_t line(const GpuRequest& r) {
  return kernels::stem_line(static_cast<int>(r.problem.w.back()), static_cast<int>(element(r)));
}
int64_t plane_steps(const GpuRequest& r) { return taps(r.problem)[1] * (line(r) / 32); }  // of K, under one of the depth's taps
int64_t steps(const GpuRequest& r) { return taps(r.problem)[0] * plane_steps(r); }

int64_t weights_bytes(const GpuRequest& r, const StemTile& t) { return steps(r) * (t.columns / 16) * 512; }

/// Rows and columns of the pixels that lie under a rectangle of windows.
std::pair<int64_t, int64_t> patch_of(const GpuRequest& r, const StemTile& t) {
  const Problem& p = r.problem;
  return {(t.tile_h - 1) * stride(p)[1] + (taps(p)[1] - 1) * dilation(p)[1] + 1,
          (t.tile_w - 1) * stride(p)[2] + line(r) / (stem_channels * element(r))};
}

int64_t shared_bytes(const GpuRequest& r, const StemAround& around, const StemTile& t) {
  const auto [patch_h, patch_w] = patch_of(r, t);
  const int64_t results = around.pool ? t.tile_h * t.tile_w * t.columns * bytes(r.problem.output, 1) : 0;
  return weights_bytes(r, t) + divide_up(patch_h * patch_w * stem_channels * element(r), 16) * 16 + results;
}

/// Windows between the first ones of rectangles side by side; of what is pooled where it is.
int64_t step_of(int64_t tile, const StemAround& around, size_t axis) {
  return around.pool ? (tile - around.pool->kernel[axis]) / around.pool->stride[axis] + 1 : tile;
}

int64_t tiles(const GpuRequest& r, const StemAround& around, const StemTile& t) {
  const Shape &y = around.pool ? around.y.shape : r.problem.y, grid = three(spatial_of(y), 1);
  return y[0] * grid[0] * divide_up(grid[1], step_of(t.tile_h, around, 0)) * divide_up(grid[2], step_of(t.tile_w, around, 1));
}

/// Blocks that a multiprocessor has at a time.
int64_t resident(const GpuRequest& r, const StemAround& around, const StemTile& t) {
  const device::cuda::DeviceInfo& i = r.gpu->info;
  const int64_t most = i.registers_per_multiprocessor / (2 * 32 * t.warps);  // two blocks are asked for
  const int64_t registers = std::min({int64_t{255}, most, t.fragments * t.columns / 2 + 80});
  return std::max<int64_t>(1, std::min(i.shared_per_multiprocessor / (shared_bytes(r, around, t) + i.reserved_shared_per_block),
                                       i.registers_per_multiprocessor / (registers * 32 * t.warps)));
}

std::string source(const GpuRequest& r, const StemAround& around, const StemTile& t, const CudaEpilogue& epilogue) {
  const Problem& p = r.problem;
  const auto pooled = [&](const Shape Window::*of, size_t axis) { return around.pool ? ((*around.pool).*of)[axis] : 0; };
  const std::string config = config_source("StemConfig", {{"channels", p.channels()},
                                                          {"taps_d", taps(p)[0]},
                                                          {"taps_h", taps(p)[1]},
                                                          {"taps_w", taps(p)[2]},
                                                          {"dilation_h", dilation(p)[1]},
                                                          {"stride_h", stride(p)[1]},
                                                          {"stride_w", stride(p)[2]},
                                                          {"tile_h", t.tile_h},
                                                          {"tile_w", t.tile_w},
                                                          {"fragments", t.fragments},
                                                          {"warps", t.warps},
                                                          {"columns", t.columns},
                                                          {"width", t.width},
                                                          {"whole", p.outputs() % t.width == 0},
                                                          {"pool_h", pooled(&Window::kernel, 0)},
                                                          {"pool_w", pooled(&Window::kernel, 1)},
                                                          {"pool_stride_h", pooled(&Window::stride, 0)},
                                                          {"pool_stride_w", pooled(&Window::stride, 1)}});
  const std::string type(expr::cuda_type(p.input)),
      tile = fmt::format("StemTile<{}, {}, {}, {}>", type, expr::cuda_type(weights_type(r)), config, expr::cuda_type(p.output));
  const std::string_view image = around.image ? "Image" : "StemImage";
  const KernelEntry conv{"conv", "Tile::threads, 2",
                         fmt::format("StemArgs<{}>", around.image ? std::string(expr::cuda_type(around.image_type)) : type),
                         fmt::format("stem_conv<Tile, {}, {:#x}, {}>", config, by_column(epilogue), image)};
  return fmt::format("#include \"conv/stem.cuh\"\n\nusing Tile = {};\nstatic_assert(Tile::shared_bytes == {});\n\n{}\n", tile,
                     shared_bytes(r, around, t), around.image ? expr::to_cuda(*around.image, "Image") : "") +
         epilogue.source(conv, sizeof(Args));
}

class StemKernel final : public CompiledKernel {
 public:
  StemKernel(const GpuRequest& r, const StemAround& around, const StemTile& t, const std::string& name)
      : CompiledKernel(*r.gpu,
                       {fmt::format("{} {}", name, t.print()), source(r, around, t, r.epilogue(t.width)), r.compile_options()},
                       "conv"),
        epilogue_(r.epilogue(t.width)),
        at_(r.at),
        pools_(around.pool.has_value()) {
    const Problem& p = r.problem;
    const Shape grid = three(spatial_of(around.pool ? around.y.shape : p.y), 1);
    const auto count = [](int64_t v) { return static_cast<uint32_t>(v); };
    copy(args_.from, five_strides(r.node.inputs[at_.x]));
    copy(args_.in, three(spatial_of(p.x[0].shape), 1));
    copy(args_.out, Shape(p.y.end() - 2, p.y.end()));
    copy(args_.pad, three(p.pad_begin, 0));
    args_.stride_d = static_cast<int32_t>(stride(p)[0]);
    args_.dilation_d = static_cast<int32_t>(dilation(p)[0]);
    args_.planes = Divider(count(grid[0]));
    if (around.pool) {
      const Shape to = memory_strides(around.y);
      copy(args_.to, Shape{to[0], to[2], to[3]});
      copy(args_.pooled_out, spatial_of(around.y.shape));
      copy(args_.pool_pad, around.pool->pad_begin);
    }
    args_.fill = r.zero();
    args_.n = count(p.outputs());
    args_.tiles = count(tiles(r, around, t));
    args_.tiles_h = Divider(count(divide_up(grid[1], step_of(t.tile_h, around, 0))));
    args_.tiles_w = Divider(count(divide_up(grid[2], step_of(t.tile_w, around, 1))));
    const int64_t columns = divide_up(p.outputs(), t.columns),
                  most = divide_up(std::max(1, r.gpu->info.multiprocessors) * resident(r, around, t), columns);
    shape_ = {.grid = {std::min<int64_t>(args_.tiles, most), columns},
              .block = {static_cast<unsigned>(32 * t.warps), 1, 1},
              .shared_bytes = shared_bytes(r, around, t)};
    if (!r.gpu->device) return;
    const Tensor& w = r.weight().constant;
    const Key key = (p.quantization ? int8_packing(r, "conv:stem") : Key("conv:stem")).field(t.columns).field(t.width);
    weights_ = r.gpu->weights->packed(r.gpu->device, w, key.text(), [&] { return stem_weights(r, t); });
    args_.w = reinterpret_cast<const void*>(weights_->address());
  }

  bool in_place(size_t) const override { return false; }
  bool reads(size_t i) const override { return i == at_.x || epilogue_.reads(i); }

  void run(const Buffers& b) override {
    args_.x = b.inputs[at_.x];
    args_.pooled = pools_ ? b.outputs[0] : nullptr;
    ops::Arguments arguments;
    arguments.value(args_);
    arguments.bytes(epilogue_.argument(b), epilogue_.bytes());
    launch(b, shape_, arguments);
  }

 private:
  CudaEpilogue epilogue_;
  conv::Arguments at_;
  bool pools_;
  device::cuda::LaunchShape shape_;
  Args args_{};
  std::shared_ptr<device::cuda::Memory> weights_;
};

}  // namespace

std::string StemTile::print() const {
  return fmt::format("{}x{} {}x{} n{} w{}", tile_h, tile_w, warps, fragments, columns, width);
}

std::optional<Refusal> rejects_stem(GpuRequest& r, const StemAround& around) {
  const Problem& p = r.problem;
  constexpr int64_t most_steps = 36, most = int64_t{1} << 31;
  const bool integers = p.quantization.has_value();
  if (p.transposed) return refuse(Reason::unsupported, "a transposed convolution");
  if (p.x.size() > 1 || p.x[0].upsample != 1) return refuse(Reason::unsupported, "several inputs or an upsampled one");
  if (p.spatial() != 2 && (p.spatial() != 3 || around.pool))
    return refuse(Reason::wrong_rank, "{} spatial axes{}, expected 2{}", p.spatial(), around.pool ? ", pooled" : "",
                  around.pool ? "" : " or 3");
  if (p.group != 1) return refuse(Reason::wrong_attribute, "{} groups; it knows one", p.group);
  if (p.channels() > stem_channels || p.channels() < 1)
    return refuse(Reason::wrong_shape, "{} channels, expected 1 to {}", p.channels(), stem_channels);
  if (p.dilation.back() != 1)
    return refuse(Reason::wrong_attribute, "taps {} columns apart, expected neighbours", p.dilation.back());
  if (!integers && ((p.input != DType::f16 && p.input != DType::bf16) || r.weight().type != p.input))
    return refuse(Reason::wrong_type, "{} by {}, it multiplies f16, bf16 and 8-bit integers", smelt::name(p.input),
                  smelt::name(r.weight().type));
  if (p.input == DType::bf16 && r.gpu->info.major < 8) return refuse(Reason::wrong_machine, "bf16 before sm_80");
  if (!r.weight().constant.valid()) return refuse(Reason::not_constant, "weights that are not constant");
  if (integers && !fit_8_bits(r)) return refuse(Reason::wrong_value, "weights that have more than 8 bits less their zero points");
  if (elements(p.y) == 0 || elements(p.w) == 0 || elements(p.x[0].shape) == 0)
    return refuse(Reason::wrong_shape, "an empty tensor");
  if (p.to != Layout::nhwc || memory_strides(around.pool ? around.y : r.node.outputs[0])[1] != 1)
    return refuse(Reason::wrong_layout, "a result whose channels do not lie side by side");
  if (plane_steps(r) > most_steps)
    return refuse(Reason::too_large, "a filter of {} x {}: {} steps of 32 bytes, expected at most {}", taps(p)[1], taps(p)[2],
                  plane_steps(r), most_steps);
  for (const int64_t size : {storage_bytes(r.node.inputs[r.at.x]), elements(p.y)})
    if (size >= most) return refuse(Reason::too_large, "tensors that span {}; it counts to 2^31", size);
  if (integers) set_integer_program(r, r.zero());
  if (around.pool) {
    const CudaEpilogue e = r.epilogue(4);
    for (size_t i = 0; i < e.operands().size(); ++i)
      if (e.varies_by_row(1 + i)) return refuse(Reason::unsupported, "an operand that differs from pixel to pixel, pooled");
  }
  if (stem_tiles(r, around).empty()) return refuse(Reason::too_large, "no rectangle of windows fits into shared memory");
  return std::nullopt;
}

std::vector<StemTile> stem_tiles(const GpuRequest& r, const StemAround& around) {
  constexpr int64_t most_products = 480;  // of a warp and a plane, all of them unrolled
  const Problem& p = r.problem;
  std::vector<std::pair<double, StemTile>> ranked;
  for (const int64_t wanted : {64, 32, 16}) {
    const int64_t columns = std::min(wanted, divide_up(p.outputs(), 16) * 16);
    if (wanted < 64 && divide_up(p.outputs(), columns) > 1) continue;  // each tile of columns copies the image again
    for (const auto& [warps, fragments] : {std::pair<int64_t, int64_t>{8, 2}, {8, 1}, {4, 4}, {4, 2}, {4, 1}}) {
      if (plane_steps(r) * fragments * (columns / 8) > std::max<int64_t>(most_products, plane_steps(r) * (columns / 8))) continue;
      // Sums are kept from plane to plane while the next is copied: 16 bytes spilled (sm_100a, f16, 3x7x7 taps).
      if (taps(p)[0] > 1 && r.gpu->info.major >= 10 && warps == 8 && fragments * columns > 64) continue;
      StemTile t{.fragments = fragments, .warps = warps, .columns = columns};
      const int64_t windows = 16 * fragments * t.warps;
      if (columns % 16 != 0) continue;
      t.width = columns_of_lane(r.epilogue(4), std::min(16 / bytes(p.output, 1), columns / 4));
      if (columns % (4 * t.width) != 0) continue;
      // Of what is pooled the most of a rectangle, nearly square; else rows of 16 windows.
      int64_t best = 0;
      for (int64_t h = 1; h <= 32; ++h)
        for (int64_t w = 1; w <= 32; ++w) {
          if (!around.pool && (w != 16 || h * w != windows)) continue;
          const int64_t tile_h = around.pool ? (h - 1) * around.pool->stride[0] + around.pool->kernel[0] : h;
          const int64_t tile_w = around.pool ? (w - 1) * around.pool->stride[1] + around.pool->kernel[1] : w;
          if (tile_h * tile_w > windows) continue;
          const int64_t score = h * w * 64 - std::abs(tile_h - tile_w);
          if (score > best) best = score, t.tile_h = tile_h, t.tile_w = tile_w;
        }
      if (best == 0 || shared_bytes(r, around, t) > r.gpu->info.shared_per_block) continue;
      ranked.emplace_back(stem_estimate_us(r, around, t), t);
    }
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<double, StemTile>::first);
  std::vector<StemTile> found;
  for (const auto& [us, t] : ranked)
    if (std::ranges::find(found, t.print(), &StemTile::print) == found.end()) found.push_back(t);
  return found;
}

namespace {

/// Instructions that an element takes, roughly.
double instructions(const expr::Program& program) {
  constexpr double of_division = 9;
  double sum = 0;
  for (const expr::Instruction& i : program.code())
    if (i.fn != expr::Fn::input && i.fn != expr::Fn::constant) sum += i.fn == expr::Fn::div ? of_division : 1;
  return sum;
}

/// Instructions of a warp for one rectangle, as the compiled kernels have them: copying the image, products, the program, pooling.
double instructions(const GpuRequest& r, const StemAround& around, const StemTile& t) {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  const Problem& p = r.problem;
  const int64_t threads = 32 * t.warps;
  const auto [patch_h, patch_w] = patch_of(r, t);
  const double image = real(taps(p)[0] * divide_up(patch_h * patch_w, threads)) *
                       (25 + real(p.channels()) * (2 + (around.image ? instructions(*around.image) : 0)));
  const double products = 80 + real(steps(r) * (t.fragments * (t.columns / 8) + 4 * t.fragments + t.columns / 16));
  const double program = real(t.fragments * t.columns / 2) * (1 + instructions(r.program));
  if (!around.pool) return image + products + program;
  const double a_tap = 8 + real(t.width) * (bytes(p.output, 1) == 1 ? 1 : 0.5);
  const int64_t vectors = step_of(t.tile_h, around, 0) * step_of(t.tile_w, around, 1) * (t.columns / t.width);
  return image + products + program +
         real(divide_up(vectors, threads)) * (30 + real(around.pool->kernel[0] * around.pool->kernel[1]) * a_tap);
}

}  // namespace

// A warp waits for memory and for its own instructions more than it works: on an H100 each issued in one clock of eight, whatever the
// rectangle, and a scheduler in two of three at most.
double stem_estimate_us(const GpuRequest& r, const StemAround& around, const StemTile& t) {
  constexpr double of_warp = 0.12, of_scheduler = 0.65, schedulers = 4;
  const device::cuda::DeviceInfo& i = r.gpu->info;
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  const int64_t multiprocessors = std::max(1, i.multiprocessors),
                each = divide_up(tiles(r, around, t) * divide_up(r.problem.outputs(), t.columns), multiprocessors);
  const double work = instructions(r, around, t);
  const double clocks = std::max(real(divide_up(each, resident(r, around, t))) * work / of_warp,
                                 real(each * t.warps) * work / (schedulers * of_scheduler));
  const double bandwidth = std::max(i.bandwidth, 1e5) * 0.9;
  const double x = real(bytes(around.image ? around.image_type : r.problem.input, elements(r.problem.x[0].shape)));
  const double y = real(bytes(r.problem.output, elements(around.pool ? around.y.shape : r.problem.y)));
  return 2 + std::max(clocks / std::max(1.0, i.clock_mhz * 1.0), (x + y) / bandwidth);
}

Tensor stem_weights(const GpuRequest& r, const StemTile& t) {
  const Problem& p = r.problem;
  const int64_t size = element(r), row_steps = line(r) / 32, blocks = divide_up(p.outputs(), t.columns);
  const int64_t rows = taps(p)[0] * taps(p)[1], columns = taps(p)[2];
  Tensor to = Tensor::zeros(DType::u8, {blocks * weights_bytes(r, t)});
  const Tensor& w = r.weight().constant;
  auto* out = static_cast<std::byte*>(to.raw());
  const auto* const from = static_cast<const std::byte*>(w.raw());
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t row = 0; row < rows; ++row)  // of taps
      for (int64_t step = 0; step < row_steps; ++step)
        for (int64_t sixteen = 0; sixteen < t.columns / 16; ++sixteen)
          for (int lane = 0; lane < 32; ++lane)
            for (int word = 0; word < 4; ++word, out += 4) {
              const kernels::StemWord at = kernels::stem_word(lane, word, static_cast<int>(step));
              const int64_t m = block * t.columns +
                                kernels::walked_channel(static_cast<int>(sixteen * 16) + at.column, static_cast<int>(t.width));
              for (int64_t byte = 0; byte < 4; byte += size) {
                const int64_t e = (at.byte + byte) / size, kw = e / stem_channels, c = e % stem_channels;
                if (m >= p.outputs() || kw >= columns || c >= p.w[1]) continue;
                if (size == 1)
                  out[byte] = static_cast<std::byte>(static_cast<int8_t>(int8_weight(r, m, c, row * columns + kw)));
                else
                  std::memcpy(out + byte, from + (((m * p.w[1] + c) * rows + row) * columns + kw) * size,
                              static_cast<size_t>(size));
              }
            }
  return to;
}

std::unique_ptr<Kernel> stem_kernel(const GpuRequest& r, const StemAround& around, const StemTile& t, const std::string& name) {
  return std::make_unique<StemKernel>(r, around, t, name);
}

void offer_stem(const SharedRequest& r, Offer& offer) {
  const auto own = std::make_shared<GpuRequest>(*r);
  if (auto why = rejects_stem(*own, {})) return offer.refuse("stem", *why);
  for (const StemTile& t : stem_tiles(*own, {}))
    offer.candidates.push_back({"stem", t.print(), stem_estimate_us(*own, {}, t),
                                [own, t, name = offer.problem] { return stem_kernel(*own, {}, t, name); }});
}

}  // namespace smelt::ops::conv
