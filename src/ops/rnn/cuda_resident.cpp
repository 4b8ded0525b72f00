// RNN, GRU and LSTM on a GPU with their recurrent weights on the multiprocessors (src/kernels/rnn/resident.cuh).
#include <algorithm>
#include <bit>

#include "base/number.h"
#include "device/cuda/clusters.h"
#include "kernels/rnn/resident.h"
#include "ops/cuda/source.h"
#include "ops/rnn/cuda_recurrent.h"

namespace smelt::ops {
namespace {

using kernels::ResidentConfig;

constexpr int64_t tile = 32;              // of the input's products, kernels' product_tile
constexpr int32_t most_kept = 8;          // vectors of four weights in a thread's registers; with 12 some kernels spill
constexpr int32_t most_kept_rounded = 6;  // where the state is rounded; with 8 sm_120's spills
constexpr int32_t most_portable = 8;      // blocks of a cluster on every card of an architecture that has clusters
constexpr int64_t most_clock_us = 1700;   // cycles of a microsecond

int64_t clusters_of(const kernels::RecurrentArgs<void, void>& a, int64_t items) {
  return a.directions * ((a.batch + items - 1) / items);
}

/// The constants for so many blocks of a cluster; nothing where they are more than are of use, or too few.
std::optional<ResidentConfig> config_of(const LayerOnGpu& layer, int32_t blocks, const Gpu& gpu) {
  const kernels::RecurrentArgs<void, void>& a = layer.args;
  ResidentConfig c{.gates = static_cast<int32_t>(layer.gates), .hidden = static_cast<int32_t>(a.hidden), .blocks = blocks};
  c.reset_before = layer.gates == 3 && !a.linear_before_reset;
  if (blocks > 1 && c.units() < 8) return std::nullopt;
  for (c.items = 1; c.items < 4 && clusters_of(a, c.items) * blocks > gpu.info.multiprocessors; c.items *= 2) {
  }
  while (c.items > 1 && c.items * c.units() > ResidentConfig::threads) c.items /= 2;
  if (c.items * c.units() > ResidentConfig::threads) return std::nullopt;
  // Rows of a lane share what it reads of the state; lanes beyond the columns would have nothing to do.
  c.lanes = 32;
  while (c.lanes > 1 && (c.passes() > 4 || 2 * c.lanes > c.hidden)) c.lanes /= 2;
  if (c.passes() * c.items > 32) return std::nullopt;
  c.kept = std::min(c.chunks(), std::max(1, (layer.rounded ? most_kept_rounded : most_kept) / c.passes()));
  const auto fits = [&] { return int64_t{c.shared_floats()} * 4 + (1 << 10) <= gpu.info.shared_per_block; };
  if (!fits()) return std::nullopt;
  while (c.kept + c.shared < c.chunks()) {
    ++c.shared;
    if (!fits()) {
      --c.shared;
      break;
    }
  }
  return c;
}

double step_us(const ResidentConfig& c) {
  const double chunk = 64.0 * c.items;  // cycles to read the state, which products of as many weights follow
  const double streamed = c.chunks() - c.kept - c.shared, passes = c.passes();
  const double product = c.chunks() * (chunk + 16 * passes * c.items) + passes * (64 * c.shared + 256 * streamed);
  return (1 + c.reset_before) * (500 + product + (c.blocks > 1 ? 400 : 0)) / most_clock_us;
}

/// Clusters of so many blocks that run at once; nothing where that is not known: the card is not here.
std::optional<int64_t> clusters_at_once(const Gpu& gpu, int32_t blocks) {
  if (blocks <= most_portable) return std::max(1, gpu.info.multiprocessors / blocks);
  if (!gpu.device) return std::nullopt;
  return gpu.caches->get<device::cuda::Clusters>().at_once(gpu.device, static_cast<unsigned>(blocks));
}

std::unique_ptr<Kernel> resident(LayerOnGpu layer, const ResidentConfig& c, const Gpu& gpu) {
  const kernels::RecurrentArgs<void, void>& l = layer.args;
  std::vector<std::pair<std::string_view, int64_t>> constants{
      {"gates", c.gates}, {"hidden", c.hidden}, {"blocks", c.blocks}, {"items", c.items},
      {"lanes", c.lanes}, {"kept", c.kept},     {"shared", c.shared}, {"reset_before", c.reset_before}};
  if (layer.rounded) constants.emplace_back("rounded", 1);
  const std::string config = config_source("ResidentConfig", constants);
  const std::string arguments = fmt::format("ResidentArgs<{}>", layer.types);
  LaunchPlan plan("recurrent", "#include \"rnn/resident.cuh\"\n\n" + layer.activations.structs);
  if (layer.before) layer.before(plan, layer);
  const int64_t rows = l.steps * l.batch, columns = l.directions * c.gates * c.hidden;
  const kernels::ResidentArgs<void, void> a{.layer = l, .products = nullptr};
  std::vector<TensorMember> tensors = layer.tensors(a.layer);
  tensors.emplace_back(a.products, plan.reserve(rows * columns * 4));
  if (rows > 0) {
    const int64_t tiles = (rows + tile - 1) / tile * ((columns + tile - 1) / tile);
    plan.launch({"input_products", "product_threads, 2", arguments, fmt::format("input_products<{}>", c.gates)},
                {.grid = {tiles, 1, 1}, .block = {256, 1, 1}})
        .args(a, tensors);
  }
  plan.launch({"resident", fmt::format("{}, 1", ResidentConfig::threads), arguments,
               fmt::format("resident<{}, {}>", config, layer.activations.names)},
              {.grid = {clusters_of(l, c.items) * c.blocks, 1, 1},
               .block = {ResidentConfig::threads, 1, 1},
               .shared_bytes = int64_t{c.shared_floats()} * 4,
               .cluster = static_cast<unsigned>(c.blocks)})
      .args(a, tensors);
  return launched(std::move(plan), gpu);
}

}  // namespace

void offer_resident_cuda(const LayerOnGpu& layer, const Machine& machine, Offer& offer) {
  const kernels::RecurrentArgs<void, void>& a = layer.args;
  const Gpu& gpu = *machine.gpu;
  constexpr int64_t most_hidden = 8192, most_tiles = int64_t{1} << 30;
  if (a.hidden == 0 || a.batch == 0 || a.hidden > most_hidden)
    return offer.refuse("cuda", Reason::too_large, "resident: {} items with a state of {}; it takes 1 to {}", a.batch, a.hidden,
                        most_hidden);
  if (a.steps * a.batch / tile * (a.directions * layer.gates * a.hidden / tile + 1) > most_tiles)
    return offer.refuse("cuda", Reason::too_large, "resident: {} steps of {} items; it has 2^30 tiles", a.steps, a.batch);
  // Of sm_90 and sm_100 the driver allows twice as many blocks as are portable, where so many multiprocessors lie in one group: of use
  // where fewer do not hold the weights.
  const int32_t most = gpu.info.major < 9 ? 1 : gpu.info.major > 10 ? most_portable : 2 * most_portable;
  bool any = false, held = false;
  double slowest = 0;
  for (int32_t blocks = 1; blocks <= most; blocks *= 2) {
    if (blocks > most_portable && held) break;
    const auto at_once = clusters_at_once(gpu, blocks);
    if (at_once && *at_once < 1) {
      offer.refuse("cuda", Reason::wrong_machine, "resident: the card has no group of {} multiprocessors for a cluster", blocks);
      break;
    }
    const auto c = config_of(layer, blocks, gpu);
    if (!c) continue;
    any = true;
    held = c->kept + c->shared == c->chunks();
    const double products = static_cast<double>(a.steps * a.batch) * static_cast<double>(a.directions * layer.gates * a.hidden) *
                            static_cast<double>(a.input) / 5e6;
    const int64_t waves = divide_up(clusters_of(a, c->items), at_once.value_or(1));
    double us = 5 + products + static_cast<double>(a.steps * waves) * step_us(*c);
    if (!at_once) us += slowest;  // the card that runs it may have no such group: behind all others
    slowest = std::max(slowest, us);
    offer.candidates.push_back({"cuda", fmt::format("resident b{} i{} l{}", blocks, c->items, c->lanes), us,
                                [layer, config = *c, gpu = machine.gpu] { return resident(layer, config, *gpu); }});
  }
  if (!any)
    offer.refuse("cuda", Reason::too_large, "resident: a state of {} with {} gates is too large for the memory of {} blocks",
                 a.hidden, layer.gates, most);
}

}  // namespace smelt::ops
