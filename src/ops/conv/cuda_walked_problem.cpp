#include "ops/conv/cuda_walked_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/number.h"
#include "kernels/common/swizzle.h"
#include "ops/conv/conv.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/channel_blocks.h"
#include "ops/cuda/epilogue_width.h"

namespace smelt::ops::conv {
namespace {

/// Where byte `byte` of line `line` lies in a stage.
int64_t in_stage(int64_t line_bytes, int64_t line, int64_t byte) {
  const auto row = static_cast<uint32_t>(line), vector = static_cast<uint32_t>(byte / 16);
  return (line_bytes == 64 ? kernels::swizzled<64>(row, vector) : kernels::swizzled<128>(row, vector)) + byte % 16;
}

/// The steps of windows that begin at place (d, h, w) among the copies of a pixel: `append` takes one after the other.
template <class Append> void append_steps(Append&& append, const WalkedProblem& p, const ImageSegment& s, int64_t from_d,
                                          int64_t from_h, int64_t from_w) {
  const auto bit = [](int64_t at) { return uint32_t{1} << at; };
  const AlongAxis depth = p.depth.value_or(AlongAxis{});
  for (int64_t d = 0; d < depth.taps; ++d)
    for (int64_t h = 0; h < p.taps[0]; ++h)
      for (int64_t w = 0; w < p.taps[1]; ++w) {
        const int64_t offset = ((from_d + d * depth.dilation) >> s.shift) * s.plane +
                               ((from_h + h * p.dilation[0]) >> s.shift) * s.row +
                               ((from_w + w * p.dilation[1]) >> s.shift) * s.pixel;
        append(kernels::WalkedTap{static_cast<int32_t>(offset * p.element),
                                  bit(h) | bit(16 + w) | (p.depth ? bit(p.taps[0] + d) : 0)});
      }
}

}  // namespace

std::string WalkedTile::print() const { return fmt::format("{} c{} w{}", config.print(), chunk, width); }

Result<WalkedProblem> walked_problem(GpuRequest& r) {
  const Problem& q = r.problem;
  if (q.transposed) return refuse(Reason::unsupported, "a transposed convolution");
  if (!q.quantization && q.input == DType::f8e4m3fn) return refuse(Reason::wrong_type, "8-bit floats");
  if (!q.quantization && q.input == DType::f32) return refuse(Reason::wrong_type, "f32, whose sums tensor cores round");
  if (q.quantization && !fit_8_bits(r))
    return refuse(Reason::wrong_value, "weights that have more than 8 bits less their zero points");
  auto found = implicit_problem(r);
  if (!found) return found.refusal();
  WalkedProblem p{*std::move(found)};
  p.weight = q.quantization ? DType::i8 : q.input;
  p.element = bytes(p.type, 1);
  p.blocked = q.blocked;
  constexpr int64_t most_taps = 15, most_bytes = int64_t{1} << 31;
  if (std::max(p.taps[0], p.taps[1]) > most_taps)
    return refuse(Reason::too_large, "a filter of {} x {}, expected at most {} along an axis", p.taps[0], p.taps[1], most_taps);
  if (p.depth && p.depth->taps + p.taps[0] > most_taps)
    return refuse(Reason::too_large, "{} taps along the depth and {} along the height, expected at most {} together",
                  p.depth->taps, p.taps[0], most_taps);
  if (p.vec * p.element < 4)
    return refuse(Reason::wrong_layout, "copies of {} bytes, expected at least 4: the channels of a pixel, or its strides",
                  p.vec * p.element);
  constexpr uint64_t most_argument = 4096;  // a kernel's argument has room for the program's operands beside it
  for (const ImageSegment& s : p.segments) p.up = std::max(p.up, int64_t{1} << s.shift);
  const uint64_t argument = kernels::walked_bytes(static_cast<int>(p.segments.size()), static_cast<int>(p.steps()));
  if (p.up > most_taps || argument > most_argument)
    return refuse(Reason::too_large, "{} inputs under {} taps, upsampled by {}: an argument of {} bytes, expected at most {}",
                  p.segments.size(), p.tap_count(), p.up, argument, most_argument);
  for (size_t i = 0; i < p.segments.size(); ++i) {
    const int64_t span = p.padded ? p.padded_bytes() : storage_bytes(r.node.inputs[r.at.x + i]);
    if (span >= most_bytes) return refuse(Reason::too_large, "an image that spans {} bytes; it counts to 2^31", span);
  }
  if (q.quantization) {
    p.zeros = {r.zero()};
    for (const SegmentQuantization& more : r.quantization().more) p.zeros.push_back(more.zero);
    p.scaled = p.segments.size() > 1;
    const bool zeros = std::ranges::all_of(p.zeros, [](int32_t z) { return z == 0; });
    for (int axis = 0; axis < p.axes(); ++axis) p.filled = p.filled || (!zeros && p.along(axis).reaches_outside());
    set_integer_program(r, p.zeros[0]);
  }
  return p;
}

int64_t walked_tiles(const WalkedProblem& p, const ImageSegment& s, int64_t line, int64_t chunk) {
  return divide_up(divide_up(s.channels * p.element, chunk) * p.tap_count() * chunk, line);
}

int64_t walked_tiles(const WalkedProblem& p, const WalkedTile& t) {
  int64_t sum = 0;
  for (const ImageSegment& s : p.segments) sum += walked_tiles(p, s, t.line, t.chunk);
  return sum;
}

std::optional<WalkedTile> walked_tile(const WalkedProblem& p, const matmul::CudaConfig& c, const CudaEpilogue& epilogue) {
  constexpr int64_t most_copies = 8;  // a thread's of the image a tile: each takes two registers
  WalkedTile t{.config = c, .line = c.tile_k * p.element};
  const int64_t copy = p.vec * p.element, warp_n = c.tile_n / c.warps_n, copies = t.line / copy;
  if (c.unit != matmul::CudaConfig::Unit::tensor || (t.line != 64 && t.line != 128)) return std::nullopt;
  // Where windows have steps of their own this one has too few registers: 8 bytes spilled (sm_90a, f16).
  if (p.up > 1 && c.tile_m == 64 && c.tile_n == 32) return std::nullopt;
  if (p.up > 1 && p.depth && c.ahead && c.tile_m >= 128) return std::nullopt;  // likewise: 8 and 132 bytes (sm_80, sm_90a, f16)
  // Scaled sums are there twice, as integers and as floats, and lie in the order of all of K.
  constexpr int64_t most_scaled = 32;
  if (p.scaled && (c.splits > 1 || c.tile_m * c.tile_n > most_scaled * c.threads())) return std::nullopt;
  if (c.threads() % copies != 0 || c.tile_m * copies > most_copies * c.threads()) return std::nullopt;
  t.width = columns_of_lane(epilogue, std::min(16 / bytes(epilogue.output().type, 1), warp_n / 4));
  int64_t fewest = 0;
  for (int64_t chunk = t.line; chunk >= 16; chunk /= 2) {
    if (t.line / chunk > std::max<int64_t>(1, p.tap_count())) continue;
    int64_t tiles = 0;
    for (const ImageSegment& s : p.segments) tiles += walked_tiles(p, s, t.line, chunk);
    if (fewest == 0 || tiles < fewest) fewest = tiles, t.chunk = chunk;
  }
  return t;
}

double walked_estimate_us(const WalkedProblem& p, const WalkedTile& t, const Gpu& gpu, double moved) {
  const device::cuda::DeviceInfo& i = gpu.info;
  const matmul::CudaConfig& c = t.config;
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  const int64_t multiprocessors = std::max(1, i.multiprocessors), threads = c.threads();
  const int64_t blocks = divide_up(p.pixels(), c.tile_m) * divide_up(p.m, c.tile_n) * c.splits;
  const int64_t k_tiles = divide_up(walked_tiles(p, t), c.splits),
                registers = std::min<int64_t>(255, c.tile_m * c.tile_n / threads + 64);
  const int64_t resident = std::max<int64_t>(
      1, std::min({i.shared_per_multiprocessor / (c.shared_bytes(p.element) + i.reserved_shared_per_block),
                   i.registers_per_multiprocessor / (registers * threads), i.threads_per_multiprocessor / threads}));
  const int64_t each = divide_up(blocks, multiprocessors), together = std::min(resident, each), waves = divide_up(each, together);
  // Fragments of small warps' tiles are loaded more often; few warps do not fill the pipes; and the program has its instructions.
  const double warp_m = real(c.tile_m / c.warps_m), warp_n = real(c.tile_n / c.warps_n);
  const double reuse = std::min(1.0, 2 * warp_m * warp_n / (warp_m + warp_n) / 48),
               filled = std::min(1.0, real(together * threads) / 256);
  const double of_f16 = i.major >= 9                   ? 2700
                        : i.major == 8 && i.minor == 0 ? 2048
                                                       : 1024;  // operations of a multiprocessor in a clock
  const double rate = of_f16 * (p.element == 1 ? 2 : 1) * i.clock_mhz * (0.25 + 0.75 * reuse) * (0.3 + 0.7 * filled) * 0.53;
  const double compute = real(each) * 2 * real(c.tile_m * c.tile_n) * real(k_tiles * c.tile_k) / rate;
  const double program = real(each * c.tile_m * std::min(c.tile_n, p.m)) * (p.element == 1 ? 10 : 6) / (128 * 0.89 * i.clock_mhz);
  const double bandwidth = std::max(i.bandwidth, 1e5) * 0.92, stage = real((c.tile_m + c.tile_n) * t.line);
  const double flying = real(std::min(blocks, multiprocessors) * together * (c.stages - 1)) * stage;
  const double memory = moved / std::min(bandwidth, flying / 0.9), from_l2 = real(blocks * k_tiles) * stage / (2.5 * bandwidth);
  double us = 2 + std::max({compute + program, memory, from_l2}) + real(waves) * (0.8 + 0.02 * real(k_tiles));
  if (threads >= 256) us *= 1.05;
  if (c.ahead && threads == 256 && c.tile_m * c.tile_n == 128 * 128) us *= 1.2;
  if (c.splits > 1)
    us += 1 + 8 * real(blocks * std::min(p.pixels(), c.tile_m) * c.tile_n) / (2 * bandwidth) + 0.05 * real(c.splits);
  return us;
}

Tensor walked_weights(const Tensor& w, const WalkedProblem& p, const WalkedTile& t) {
  const Shape& s = w.shape();
  const matmul::CudaConfig& c = t.config;
  const int64_t warp_n = c.tile_n / c.warps_n, tiles_n = divide_up(p.m, c.tile_n), k_tiles = walked_tiles(p, t);
  const int64_t element = p.element, stage = c.tile_n * t.line, taps = p.tap_count();
  const int64_t rows = (p.depth ? p.depth->taps : 1) * p.taps[0],
                columns = p.padded ? p.taps_w : p.taps[1];    // of the filter as ONNX has it
  std::vector<int64_t> line_of(static_cast<size_t>(warp_n));  // a warp's channels
  for (int64_t column = 0; column < warp_n; ++column)
    line_of[static_cast<size_t>(kernels::walked_channel(static_cast<int>(column), static_cast<int>(t.width)))] = column;
  const bool less_128 = w.type() == DType::u8;
  Tensor to = Tensor::zeros(DType::u8, {tiles_n * k_tiles * stage});
  auto* const out = static_cast<uint8_t*>(to.raw());
  const auto* const from = static_cast<const uint8_t*>(w.raw());
  for (int64_t m = 0; m < p.m; ++m) {
    const int64_t in_tile = m % c.tile_n, line = in_tile / warp_n * warp_n + line_of[static_cast<size_t>(in_tile % warp_n)];
    uint8_t* const tile = out + m / c.tile_n * k_tiles * stage;
    int64_t first_tile = 0, first = 0;  // of the segment: its tile of K, its first channel
    for (const ImageSegment& segment : p.segments) {
      const int64_t channels = p.padded ? s[1] : segment.channels;
      for (int64_t channel = 0; channel < channels; ++channel)
        for (int64_t kh = 0; kh < rows; ++kh)
          for (int64_t kw = 0; kw < columns; ++kw) {
            // Where the image is padded, a row's taps are channels.
            const int64_t tap = p.padded ? kh : kh * columns + kw;
            const int64_t byte = (p.padded ? kw * ImplicitProblem::padded_channels + channel : channel) * element;
            const int64_t chunk = byte / t.chunk * taps + tap, k_tile = first_tile + chunk / t.in_line();
            const int64_t at = k_tile * stage + in_stage(t.line, line, chunk % t.in_line() * t.chunk + byte % t.chunk);
            std::memcpy(tile + at, from + (((m * s[1] + first + channel) * rows + kh) * columns + kw) * element,
                        static_cast<size_t>(element));
            if (less_128) tile[at] ^= 0x80;
          }
      first_tile += walked_tiles(p, segment, t.line, t.chunk);
      first += channels;
    }
  }
  return to;
}

Key walked_packing(const WalkedProblem& p, const WalkedTile& t) {
  Key key("conv:walked");
  key.field(t.config.tile_n).field(t.config.tile_n / t.config.warps_n).field(t.width).field(t.line).field(t.chunk);
  key.flag(":padded", p.padded);
  for (const ImageSegment& s : p.segments) key.field(s.channels);
  return key;
}

std::vector<std::byte> walked_arguments(const WalkedProblem& p, const WalkedTile& t) {
  const matmul::CudaConfig& c = t.config;
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  const int64_t k_tiles = walked_tiles(p, t);
  WalkedHead args{};
  args.m = static_cast<uint32_t>(p.pixels());
  args.n = static_cast<uint32_t>(p.m);
  args.tiles_n = static_cast<uint32_t>((p.m + c.tile_n - 1) / c.tile_n);
  args.k_tiles = narrow(k_tiles);
  args.split_tiles = narrow((k_tiles + c.splits - 1) / c.splits);
  set_geometry(args, p);
  std::vector<std::byte> memory(kernels::walked_bytes(static_cast<int>(p.segments.size()), static_cast<int>(p.steps())));
  std::memcpy(memory.data(), static_cast<const void*>(&args), offsetof(WalkedHead, segments));
  std::byte* to = memory.data() + offsetof(WalkedHead, segments);
  const auto append = [&to](const auto& v) { std::memcpy(to, static_cast<const void*>(&v), sizeof v), to += sizeof v; };
  for (const ImageSegment& s : p.segments) {
    WalkedSegment one{};
    one.image = narrow(s.image * p.element);
    one.row = narrow(s.row * p.element);
    one.pixel = narrow(s.pixel * p.element);
    one.channels = narrow(s.channels * p.element);
    one.tiles = narrow(walked_tiles(p, s, t.line, t.chunk));
    one.shift = s.shift;
    static_assert(kernels::walked_block == channel_block);
    one.block = narrow(p.in_height * p.in_width * kernels::walked_block);
    one.plane = narrow(s.plane * p.element);
    append(one);
  }
  for (const ImageSegment& s : p.segments)
    for (int64_t from_d = 0; from_d < (p.depth ? p.up : 1); ++from_d)
      for (int64_t from_h = 0; from_h < p.up; ++from_h)
        for (int64_t from_w = 0; from_w < p.up; ++from_w) append_steps(append, p, s, from_d, from_h, from_w);
  return memory;
}

Tensor walked_scales(const Request& q, const WalkedProblem& p) {
  const Quantization& numbers = q.quantization();
  const int64_t taps = elements(spatial_of(q.problem.w));
  Tensor table = Tensor::empty(DType::u8, {std::ssize(p.segments) * p.m * static_cast<int64_t>(sizeof(kernels::WalkedScale))});
  auto* to = reinterpret_cast<kernels::WalkedScale*>(table.raw());
  int64_t first = 0;  // the segment's channel
  for (size_t i = 0; i < p.segments.size(); ++i) {
    const std::vector<float>& scales = i == 0 ? numbers.scales : numbers.more[i - 1].scales;
    for (int64_t m = 0; m < p.m; ++m) {
      uint32_t sum = 0;
      for (int64_t c = first; c < first + p.segments[i].channels; ++c)
        for (int64_t t = 0; t < taps; ++t) sum += static_cast<uint32_t>(int8_weight(q, m, c, t));
      *to++ = {static_cast<int32_t>(-static_cast<uint32_t>(p.zeros[i]) * sum),
               scales[scales.size() > 1 ? static_cast<size_t>(m) : 0]};
    }
    first += p.segments[i].channels;
  }
  return table;
}

}  // namespace smelt::ops::conv
