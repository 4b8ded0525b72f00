#include "run/plan.h"

#include <algorithm>
#include <array>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "device/cuda/compiler.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cudnn.h"
#include "import/import.h"
#include "import/precision.h"
#include "ops/core/machine.h"
#include "ops/core/tactic_names.h"
#include "ops/cuda/gpu.h"
#include "run/absent_backend.h"
#include "run/carried.h"
#include "run/cuda_backend.h"
#include "run/execution.h"
#include "run/kernels.h"
#include "run/shapes.h"

namespace smelt::run {
namespace {

std::vector<TensorInfo> infos(const Graph& g, const std::vector<ValueId>& values) {
  std::vector<TensorInfo> list;
  for (ValueId v : values) {
    const Value& value = g.value(v);
    list.push_back({value.name, value.type, value.shape.value_or(SymShape{}), value.shape.has_value()});
  }
  return list;
}

/// Subgraphs among a node's attributes.
std::vector<GraphPtr> bodies_of(const Node& node) {
  std::vector<GraphPtr> bodies;
  for (const auto& [key, attribute] : node.attrs) {
    if (const auto* g = std::get_if<GraphPtr>(&attribute); g && *g) bodies.push_back(*g);
  }
  return bodies;
}

/// The timings in that folder, the default one if it is empty; in memory, and said so, where it cannot be made.
std::shared_ptr<tune::Cache> open_cache(const std::filesystem::path& dir) {
  try {
    return tune::Cache::open(tune::cache_path(cache_dir(dir)));
  } catch (const Error& e) {
    warn("{}; timings are not kept. {}", e.what(), e.next());
    return tune::Cache::in_memory();
  }
}

/// Where compiled kernels are kept; nowhere, and said so, where that cannot be made.
std::filesystem::path kernels_folder(const Options& options) {
  if (!options.use_cache) return {};
  try {
    return cache_dir(options.cache_dir) / "kernels";
  } catch (const Error& e) {
    warn("{}; compiled kernels are not kept. {}", e.what(), e.next());
    return {};
  }
}

/// The machine as it is, for plans that run on a GPU; where they do.
/// What `carried` has for that GPU is taken; its choices are dropped where it has nothing.
std::shared_ptr<Backend> use_gpu(ops::Machine& machine, const Options& options, const tune::TacticFilter& filter, bool tf32,
                                 Carried& carried) {
  const bool here = options.arch.empty();
  ops::Gpu gpu = here ? *ops::open_gpu(*device::cuda::ordinal_of(options.device), kernels_folder(options))
                      : *ops::gpu_of_arch(options.arch, kernels_folder(options));
  gpu.tf32 = tf32;
  gpu.nondeterministic = filter.asks_for(ops::nondeterministic);
  const bool carries = take_kernels(carried, gpu);
  if (!carries) device::cuda::check_compiler(gpu.info.arch, gpu.info.driver);
  machine.gpu = std::make_shared<ops::Gpu>(std::move(gpu));
  const bool compiles = !carries || device::cuda::compiler_missing().empty();
  machine.versions += ", " + (compiles ? device::cuda::compiler_version() : "no NVRTC");
  if (device::cuda::cublaslt_missing().empty()) machine.versions += ", " + device::cuda::cublaslt_version();
  if (device::cuda::cudnn_missing().empty()) machine.versions += ", " + device::cuda::cudnn_version();
  if (!here) return absent_backend(options.arch);
  machine.versions += fmt::format(", driver {}", machine.gpu->info.driver);
  if (options.memory_limit < 0) fail_usage("a memory limit of {} bytes", options.memory_limit);
  machine.gpu->device->set_limit(options.memory_limit);
  return cuda_backend(machine.gpu->device, filter.asks_for(ops::early_launch));
}

/// Opens the GPU and the libraries that candidates come from while the model is imported, each in a thread of its own: what fails
/// here fails again, and is said, where it is used.
class Opening {
 public:
  explicit Opening(const Options& options) {
    const bool here = options.arch.empty();
    const auto ordinal = here ? device::cuda::ordinal_of(options.device) : std::nullopt;
    if (!ordinal) return;
    threads_.emplace_back([this, ordinal] {
      try {
        device_ = device::cuda::Device::open(*ordinal);
      } catch (const Error&) {
      }
    });
    threads_.emplace_back([] {
      device::cuda::compiler_missing();
      device::cuda::cublaslt_missing();
      device::cuda::cudnn_missing();
    });
  }
  /// Until the device is open.
  void wait() { threads_.clear(); }

 private:
  std::shared_ptr<device::cuda::Device> device_;  // stays open while this lives
  std::vector<std::jthread> threads_;
};

/// Operators that run as they are; import expands the others into their function bodies.
bool runs(std::string_view domain, std::string_view op) { return domain == smelt_domain || ops::find(op, domain) != nullptr; }

}  // namespace

bool on_gpu(const Options& options) { return !options.arch.empty() || device::cuda::ordinal_of(options.device); }

fuse::Options rewriting(const Options& options) { return {.skip = options.skip, .int8_by_constants = on_gpu(options)}; }

std::shared_ptr<PlanImpl::Shared> share(const Options& options, bool tf32, Carried carried) {
  ops::Machine machine = ops::this_machine(options.threads);
  const bool on_host = !on_gpu(options);
  if (on_host) carried = {};
  const auto filter = tune::TacticFilter::parse(options.tactics, ops::tactic_names);
  auto backend = on_host ? host_backend() : use_gpu(machine, options, filter, tf32, carried);
  Options kept = options;
  if (!options.arch.empty()) kept.tuning_level = 0;
  auto cache = !options.use_cache || kept.tuning_level == 0 ? tune::Cache::in_memory() : open_cache(options.cache_dir);
  return std::shared_ptr<PlanImpl::Shared>(new PlanImpl::Shared{
      {machine, kept.tuning_level, filter, std::move(cache), std::move(carried.choices)}, {}, kept, std::move(backend)});
}

PlanImpl::PlanImpl(Graph graph, std::shared_ptr<Shared> shared) : shared_(std::move(shared)), graph_(std::move(graph)) {
  order_ = graph_.topological();
  inputs_ = infos(graph_, graph_.inputs());
  outputs_ = infos(graph_, graph_.outputs());
  std::set<const void*> counted;
  for (size_t i = 0; i < graph_.value_count(); ++i) {
    const Value& v = graph_.value(ValueId{static_cast<int32_t>(i)});
    if (v.is_constant() && counted.insert(v.constant.raw()).second) constant_bytes_ += v.constant.nbytes();
  }
  for (NodeId n : order_) {
    if (splits_plan(graph_.node(n))) splits_.push_back(graph_.node(n).name);
    for (const GraphPtr& g : bodies_of(graph_.node(n))) {
      Graph copy = clone(*g);
      if (shared_->options.optimize) fuse::run(copy, rewriting(shared_->options));
      auto body = std::make_shared<PlanImpl>(std::move(copy), shared_);
      constant_bytes_ += body->constant_bytes();
      bodies_.emplace(g.get(), std::move(body));
    }
  }
}

std::shared_ptr<const PlanImpl> PlanImpl::body(const Graph& g) const {
  const auto at = bodies_.find(&g);
  if (at == bodies_.end()) fail("graph '{}' is no body of a node of '{}'", g.name, graph_.name);
  return at->second;
}

std::unique_ptr<Execution> PlanImpl::execution() const { return std::make_unique<ExecutionImpl>(shared_from_this()); }

Tensor PlanImpl::place(const Tensor& t) const {
  Backend& backend = *shared_->backend;
  if (!t.valid() || t.type() == DType::string || backend.reaches(t.raw())) return t;
  Tensor placed = backend.allocate(t.type(), t.shape(), "a tensor of the caller's");
  const std::shared_ptr<void> stream = backend.stream();
  backend.copy(placed.raw(), t.raw(), t.nbytes(), stream.get());
  backend.wait(stream.get());
  return placed;
}

void PlanImpl::prepare() {
  if (!std::ranges::all_of(inputs_, [](const TensorInfo& i) { return i.rank_known && is_static(i.shape); })) return;
  std::vector<Shape> shapes;
  for (const TensorInfo& i : inputs_) shapes.push_back(to_shape(i.shape));
  prepared_ = plan_first(*this, shapes);
  steps_ = describe_steps(graph_, prepared_->segment);
}

std::string PlanImpl::device() const { return tune::device_text(shared_->tuner.machine()); }

BuildInfo PlanImpl::build_info() const {
  const tune::TunerStats s = shared_->tuner.stats();
  return {shared_->options.tuning_level, s.problems, s.measured, s.cached, s.seconds, shared_->stages->list(), s.clocks};
}

std::unique_ptr<Planned> PlanImpl::take_prepared() const {
  std::lock_guard lock(mutex_);
  return std::move(prepared_);
}

namespace {

std::shared_ptr<const Plan> build(Graph graph, const Options& options, std::shared_ptr<Stages> stages) {
  StageClock clock(*stages);
  const auto asked = graph.model.metadata.find("smelt.precision");  // of a plan that was saved
  const bool tf32 = options.precision == "tf32" || (asked != graph.model.metadata.end() && asked->second == "tf32");
  auto shared = share(options, tf32, read_carried(graph.model.metadata));
  shared->stages = std::move(stages);
  clock.end("device");
  const PrecisionSummary done = convert_precision(graph, options.precision, options.keep_fp32);
  if (done.converted > 0)
    info("{}: {} nodes compute in {}, {} stay in fp32, {} casts between them", graph.name, done.converted, options.precision,
         done.kept, done.casts);
  if (options.optimize) fuse::run(graph, rewriting(options));
  auto plan = std::make_shared<PlanImpl>(std::move(graph), std::move(shared));
  clock.end("rewriting");
  plan->prepare();
  return plan;
}

}  // namespace
}  // namespace smelt::run

namespace smelt {

std::shared_ptr<const Plan> Plan::build(Graph graph, const Options& options) {
  return run::build(std::move(graph), options, std::make_shared<run::Stages>());
}

std::shared_ptr<const Plan> Plan::build(const std::string& path, const Options& options) {
  ImportOptions import;
  import.shapes = options.shapes;
  import.supported = [gpu = run::on_gpu(options)](std::string_view domain, std::string_view op) {
    return run::runs(domain, op) && !(gpu && ops::expanded_on_gpu(domain, op));
};
auto stages = std::make_shared<run::Stages>();
run::StageClock clock(*stages);
run::Opening opening(options);
Graph graph = import_model(path, import);
clock.end("import");
opening.wait();
clock.end("device");
try {
  return run::build(std::move(graph), options, std::move(stages));
} catch (const Error& e) {
  throw e.code() == ExitCode::usage ? e : e.at(path);
}
}  // namespace smelt

}  // namespace smelt
