#include "plan/context.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "device/cuda/device.h"
#include "ops/core/machine.h"
#include "ops/core/tactic_names.h"
#include "ops/cuda/gpu.h"

namespace smelt::plan {

bool on_gpu(const Options& options) { return !options.arch.empty() || device::cuda::ordinal_of(options.device); }

namespace {

/// On a processor convolutions run in f32, unless a 16-bit type was asked for or is multiplied as it is.
fuse::WidenedFloats widened(const Options& options) {
  if (on_gpu(options) || !options.precision.empty()) return fuse::WidenedFloats::none;
  return ops::multiplies_bf16() ? fuse::WidenedFloats::f16 : fuse::WidenedFloats::f16_and_bf16;
}

/// wgmma multiplies 8-bit floats, and is Hopper's alone.
bool multiplies_f8(const Options& options) {
  if (!on_gpu(options) || !tactic_filter(options).allows("hopper")) return false;
  if (!options.arch.empty()) return device::cuda::info_of_arch(options.arch).major == 9;
  const std::optional<int> ordinal = device::cuda::ordinal_of(options.device);
  const std::vector<device::cuda::DeviceInfo>& all = device::cuda::devices();
  return ordinal && static_cast<size_t>(*ordinal) < all.size() && all[static_cast<size_t>(*ordinal)].major == 9;
}

}  // namespace

fuse::Options fuse_options(const Options& options) {
  std::vector<std::string> skip = options.skip;
  if (!multiplies_f8(options)) skip.insert(skip.end(), {"f8_matmul", "f8_conv"});  // dequantized, and what follows is multiplied
  if (!on_gpu(options) || !tactic_filter(options).allows("stem")) skip.push_back("stem_conv");
  if (!on_gpu(options)) skip.insert(skip.end(), {"quantized_concat_conv", "blocked_conv"});
  return {.skip = std::move(skip),
          .int8_by_constants = on_gpu(options),
          .taken_apart = on_gpu(options) && options.take_apart,
          .blocks_in_parts = on_gpu(options),
          .bare_f64_conv = !on_gpu(options),
          .causal_apart = on_gpu(options),
          .widened = widened(options)};
}

std::shared_ptr<MemoryAccount> account_for(const Options& options) {
  if (options.memory_limit < 0) fail_usage("a memory limit of {} bytes", options.memory_limit);
  const bool limited = options.memory_limit > 0 && !on_gpu(options);
  return std::make_shared<MemoryAccount>(limited ? options.memory_limit : MemoryAccount::no_limit);
}

int64_t room_on_gpu(const Context& context) {
  const auto& gpu = context.tuner.machine().gpu;
  int64_t room = MemoryAccount::no_limit;
  if (context.target.is_host || !gpu) return room;
  for (const int64_t most : {context.options.memory_limit, gpu->info.memory_bytes})  // 0: none, or not known
    if (most > 0) room = std::min(room, most);
  return room;
}

tune::TacticFilter tactic_filter(const Options& options) { return tune::TacticFilter::parse(options.tactics, ops::tactic_names); }

std::shared_ptr<tune::Cache> open_cache(const Options& options) {
  if (!options.use_cache || options.tuning_level == 0) return tune::Cache::in_memory();
  try {
    return tune::Cache::open(tune::cache_path(cache_dir(options.cache_dir)));
  } catch (const Error& e) {
    warn("{}; timings are not kept. {}", e.what(), e.next());
    return tune::Cache::in_memory();
  }
}

Context::Context(ops::Machine machine, Options options, Target target, std::shared_ptr<tune::Cache> cache,
                 const tune::PinnedChoices& pinned, bool keeps_weights, std::string carried)
    : tuner(std::move(machine), options.tuning_level, tactic_filter(options), std::move(cache), pinned,
            {.limit_s = options.tuning_time_limit, .keeps_weights = keeps_weights},
            pinned.empty() ? tune::entries_in(carried) : std::vector<tune::CacheEntry>()),
      options(std::move(options)),
      team{.threads = tuner.machine().threads,
           .pool = this->options.pool ? threads::pool_on(this->options.pool) : nullptr,
           .spin = this->options.spin},
      target(std::move(target)),
      carried_timings(std::move(carried)) {}

}  // namespace smelt::plan
