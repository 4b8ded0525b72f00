// Convolutions as implicit products (src/kernels/conv/implicit.cuh): f16 and bf16 on tensor cores, f32 by multiply-adds, or where
// it may be rounded to tf32 on tensor cores too. Generated for the type, the tile, the width of copies and the epilogue.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "expr/cuda.h"
#include "ops/conv/cuda_implicit_problem.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/matmul/cuda_configs.h"

namespace smelt::ops::conv {
namespace {

using Config = matmul::CudaConfig;

constexpr int64_t most_copies = 8;  // a thread's of the image a tile: each takes four registers

/// The product that a convolution is, for what chooses its tiles: K in whole tiles of `tile`.
matmul::CudaProblem product_of(const GpuRequest& r, const ImplicitProblem& p, int64_t tile) {
  matmul::CudaProblem product{{p.pixels(), p.m, p.k(tile), {p.batches}, {}, {}}, p.type, p.type, implicit_epilogue(r, p), {}};
  product.a.vec = p.vec;
  product.b.vec = 16 / bytes(p.type, 1);
  product.a.batch = {0};
  product.b.batch = {1};
  for (const Input& x : r.problem.x) product.image_bytes += static_cast<double>(bytes(p.type, elements(x.shape)));
  return product;
}

std::string source(const GpuRequest& r, const ImplicitProblem& p, const Config& c) {
  std::string code = "#include \"conv/implicit.cuh\"\n" + implicit_epilogue(r, p).source();
  code += fmt::format("\nusing Tile = {};\n", matmul::tile_type(product_of(r, p, c.tile_k), c));
  return code + fmt::format(
                    "extern \"C\" __global__ void __launch_bounds__(Tile::threads) conv(\n"
                    "    const __grid_constant__ ConvArgument<Tile, {}> g, const __grid_constant__ Epilogue epilogue) {{\n"
                    "  static_assert(Tile::shared_bytes == {});\n"
                    "  extern __shared__ __align__(128) char shared[];\n"
                    "  conv_block<Tile, {}, {}, {}>(g, epilogue, shared);\n}}\n",
                    p.segments.size(), c.shared_bytes(bytes(p.type, 1)), p.vec, p.segments.size(), c.splits > 1);
}

/// Copies an image with its padding in place (src/kernels/conv/pad.cuh).
class PadKernel final : public CompiledKernel {
 public:
  PadKernel(const GpuRequest& r, const ImplicitProblem& p) : CompiledKernel(*r.gpu, {"conv:pad", pad_source(p), {}}, "pad") {
    const BoundTensor& x = r.node.inputs[0];
    g_.pixels = static_cast<uint32_t>(p.n * p.in_height * p.in_width);
    g_.width = Divider(static_cast<uint32_t>(p.in_width));
    g_.height = Divider(static_cast<uint32_t>(p.in_height));
    copy(g_.in, Shape(x.shape.begin() + 1, x.shape.end()));
    copy(g_.pad, r.problem.pad_begin);
    copy(g_.from, memory_strides(x));
  }

  void run(const Buffers& b) override {
    ops::Arguments arguments;
    arguments.tensor(b.inputs[0]).tensor(b.workspace).value(g_);
    launch(b, {.grid = {(g_.pixels + 255) / 256, 1, 1}, .block = {256, 1, 1}}, arguments);
  }

 private:
  struct Geometry {
    uint32_t pixels = 0;
    Divider width, height;
    int32_t in[3], pad[2];
    int64_t from[4];
  };
  static std::string pad_source(const ImplicitProblem& p) {
    const auto type = expr::cuda_type(p.type);
    return fmt::format(
        "#include \"conv/pad.cuh\"\n\nextern \"C\" __global__ void __launch_bounds__(256)\n"
        "pad(const {}* x, {}* y, const __grid_constant__ PadGeometry g) {{\n  pad_image<{}, {}>(x, y, g);\n}}\n",
        type, type, type, ImplicitProblem::padded_channels);
  }
  Geometry g_;
};

class ImplicitKernel final : public CompiledKernel {
 public:
  ImplicitKernel(const GpuRequest& r, const ImplicitProblem& p, const Config& c, const std::string& name)
      : CompiledKernel(*r.gpu, {fmt::format("{} {}", name, c.print()), source(r, p, c), {}}, "conv"),
        epilogue_(implicit_epilogue(r, p)),
        at_(r.at),
        segments_(p.segments.size()),
        image_bytes_(device_aligned(p.padded_bytes())) {
    if (p.padded) pad_ = std::make_unique<PadKernel>(r, p);
    const int64_t tiles_n = (p.m + c.tile_n - 1) / c.tile_n, tiles = (p.pixels() + c.tile_m - 1) / c.tile_m * tiles_n;
    const int64_t blocks = tiles * p.batches;
    const int64_t k_tiles = p.k(c.tile_k) / c.tile_k, split_tiles = (k_tiles + c.splits - 1) / c.splits;
    // A split that would begin beyond K is none.
    const int64_t splits = c.splits == 1 ? 1 : (k_tiles + split_tiles - 1) / split_tiles;
    shape_ = {.grid = {static_cast<unsigned>(blocks), static_cast<unsigned>(splits), 1},
              .block = {static_cast<unsigned>(c.threads()), 1, 1},
              .shared_bytes = c.shared_bytes(bytes(p.type, 1))};
    if (c.splits > 1) partial_bytes_ = blocks * splits * c.tile_m * c.tile_n * 4;
    argument(p, c, tiles, tiles_n, k_tiles, split_tiles);
    if (!r.gpu->device) return;
    const Tensor& w = r.weight().constant;
    weights_ = r.gpu->weights->packed(r.gpu->device, w, implicit_packing(p, c.tile_k).text(),
                                      [&] { return implicit_weights(w, p, c.tile_k); });
    if (c.splits > 1) arrived_ = zeroed(*r.gpu, blocks * 4, "a convolution's split tiles");
  }

  int64_t workspace() const override { return image_bytes_ + partial_bytes_; }
  bool in_place(size_t i) const override { return i >= at_.operands && epilogue_.in_place(i); }
  bool reads(size_t i) const override { return i != at_.w; }

  void run(const Buffers& b) override {
    if (pad_) pad_->run(b);
    std::vector<const void*>& addresses = addresses_;
    for (size_t i = 0; i < segments_; ++i) addresses[i] = pad_ ? b.workspace : b.inputs[i];
    addresses[segments_] = reinterpret_cast<const void*>(weights_->address());
    addresses[segments_ + 1] = static_cast<const char*>(b.workspace) + image_bytes_;
    addresses[segments_ + 2] = arrived_ ? reinterpret_cast<const void*>(arrived_->address()) : nullptr;
    std::memcpy(argument_.data(), addresses.data(), addresses.size() * sizeof(void*));
    ops::Arguments arguments;
    arguments.bytes(argument_.data()).bytes(epilogue_.argument(b));
    launch(b, shape_, arguments);
  }

 private:
  /// ConvArgument as it lies in memory.
  void argument(const ImplicitProblem& p, const Config& c, int64_t tiles, int64_t tiles_n, int64_t k_tiles, int64_t split_tiles) {
    addresses_.resize(segments_ + 3);
    argument_.resize(addresses_.size() * sizeof(void*));
    const auto append = [&](const auto& value) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      argument_.insert(argument_.end(), bytes, bytes + sizeof value);
    };
    for (ImageSegment s : p.segments) {
      s.tiles = static_cast<int32_t>((s.channels + c.tile_k - 1) / c.tile_k);
      append(s);
    }
    append(k_tiles * c.tile_k);
    append(p.m * k_tiles * c.tile_k);
    for (const int64_t v : {p.pixels(), p.m, tiles, tiles_n, k_tiles, split_tiles}) append(static_cast<int32_t>(v));
    append(Divider(static_cast<uint32_t>(p.out_width)));
    append(Divider(static_cast<uint32_t>(p.out_height)));
    for (const int64_t v : {p.in_height, p.in_width}) append(static_cast<int32_t>(v));
    for (const auto* pair : {&p.stride, &p.pad, &p.dilation, &p.taps})
      for (const int64_t v : *pair) append(static_cast<int32_t>(v));
    argument_.resize((argument_.size() + 7) / 8 * 8);
  }

  CudaEpilogue epilogue_;
  conv::Arguments at_;
  size_t segments_;
  int64_t image_bytes_, partial_bytes_ = 0;
  std::unique_ptr<PadKernel> pad_;
  device::cuda::LaunchShape shape_;
  std::vector<const void*> addresses_;  // of the segments, the weights, the splits' sums and their counters
  std::vector<std::byte> argument_;
  std::shared_ptr<device::cuda::Memory> weights_, arrived_;
};

}  // namespace

void offer_implicit_cuda(const SharedRequest& r, Offer& offer) {
  constexpr size_t most_candidates = 12;  // the rest rank behind these by so much that they never won
  auto found = implicit_problem(*r);
  if (const auto* why = std::get_if<std::string>(&found)) return offer.rejected.push_back({"cuda", "implicit: " + *why});
  const auto p = std::make_shared<const ImplicitProblem>(std::get<ImplicitProblem>(std::move(found)));
  matmul::CudaProblem product = product_of(*r, *p, 1);
  std::string why;
  std::vector<std::pair<double, Config>> ranked;
  for (const Config& c : matmul::cuda_configs(product, *r->gpu, why)) {
    if (c.tile_m * c.tile_k / p->vec > most_copies * c.threads() || c.threads() % (c.tile_k / p->vec) != 0) continue;
    // Its pixels' places beside 32 x 32 sums a warp are more than the registers that it may have: 8 bytes spilled (sm_90a, bf16).
    if (c.tile_m == 32 && c.tile_n == 128) continue;
    product.k = p->k(c.tile_k);
    ranked.emplace_back(matmul::cuda_estimate_us(product, c, *r->gpu) + (p->padded ? 2 : 0), c);
  }
  if (ranked.empty())
    return offer.rejected.push_back(
        {"cuda", why.empty() ? fmt::format("implicit: copies of {} elements, too many a thread in every tile", p->vec)
                             : "implicit: " + why});
  std::ranges::stable_sort(ranked, {}, &std::pair<double, Config>::first);
  if (ranked.size() > most_candidates) ranked.resize(most_candidates);
  for (const auto& [us, c] : ranked)
    offer.candidates.push_back({"cuda", fmt::format("implicit {}", c.print()), us, [r, p, c = c, name = offer.problem] {
                                  return std::make_unique<ImplicitKernel>(*r, *p, c, name);
                                }});
}

}  // namespace smelt::ops::conv
