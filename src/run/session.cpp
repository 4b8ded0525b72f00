#include "smelt/session.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "device/cuda/device.h"
#include "run/execution.h"
#include "run/feeds.h"
#include "smelt/sequences.h"

namespace smelt {

int gpu_of(const Tensor& t) { return t.nbytes() == 0 || t.type() == DType::string ? -1 : device::cuda::device_of(t.raw()); }

Tensor to_host(const Tensor& t) {
  const int gpu = gpu_of(t);
  if (gpu < 0) return t;
  const auto device = device::cuda::Device::open(gpu);
  device->wait_for(t.raw());
  Tensor copy = Tensor::empty(t.type(), t.shape());
  const device::cuda::Device::Current current(*device);
  const device::cuda::Stream stream(device);
  device::cuda::check(device::cuda::driver().copy_to_host(copy.raw(), reinterpret_cast<device::cuda::abi::Address>(t.raw()),
                                                          static_cast<size_t>(t.nbytes()), stream.get()),
                      "copying a tensor to the host");
  stream.synchronize();
  return copy;
}

void share(const Tensor& t, void* stream) {
  if (const int gpu = gpu_of(t); gpu >= 0)
    device::cuda::Device::open(gpu)->follow(static_cast<device::cuda::abi::Stream>(stream), t.raw());
}

void keep(const Tensor& t, void* stream) {
  if (const int gpu = gpu_of(t); gpu >= 0)
    device::cuda::Device::open(gpu)->keep(std::make_shared<Tensor>(t), static_cast<device::cuda::abi::Stream>(stream));
}

struct Session::State {
  std::shared_ptr<const run::PlanImpl> plan;
  std::mutex mutex;
  std::vector<std::unique_ptr<run::ExecutionImpl>> idle;
  std::vector<run::ExecutionImpl*> running;

  explicit State(std::shared_ptr<const Plan> p) : plan(std::dynamic_pointer_cast<const run::PlanImpl>(std::move(p))) {
    if (!plan) fail_usage("a Session needs a plan made by Plan::build");
    if (!plan->backend().is_host()) return;
    auto first = std::make_unique<run::ExecutionImpl>(plan);
    first->get_ready();
    idle.push_back(std::move(first));
  }

  /// An Execution for one run. It is among the idle ones afterwards, unless the run threw: then it is dropped.
  class Taken {
   public:
    /// `stream`: the caller's; one that was last used there needs not wait for another stream.
    explicit Taken(State& state, std::optional<void*> stream = {}) : state_(state) {
      {
        const std::lock_guard lock(state.mutex);
        if (!state.idle.empty()) {
          const auto same = std::ranges::find_if(state.idle, [&](const auto& e) { return e->last_stream() == stream; });
          const auto at = same == state.idle.end() ? state.idle.end() - 1 : same;
          execution_ = std::move(*at);
          state.idle.erase(at);
        }
      }
      if (!execution_) execution_ = std::make_unique<run::ExecutionImpl>(state.plan);
      execution_->clear_cancel();
      const std::lock_guard lock(state.mutex);
      state.running.push_back(execution_.get());
    }
    ~Taken() {
      const std::lock_guard lock(state_.mutex);
      std::erase(state_.running, execution_.get());
      if (done_) state_.idle.push_back(std::move(execution_));
    }
    Taken(const Taken&) = delete;
    run::ExecutionImpl* operator->() const { return execution_.get(); }
    void done() { done_ = true; }

   private:
    State& state_;
    std::unique_ptr<run::ExecutionImpl> execution_;
    bool done_ = false;
  };

  std::vector<Tensor> run(std::span<const Tensor> inputs, std::span<const Cache> caches) {
    Taken execution(*this);
    std::vector<Tensor> all = execution->run_fresh(inputs, caches);
    execution.done();
    return all;
  }
};

namespace {

/// Positions of the outputs asked for, of a sequence those of its tensors; all when none is.
std::vector<size_t> select(const Plan& plan, const std::vector<std::string>& names) {
  const std::vector<TensorInfo>& outputs = plan.outputs();
  const std::vector<SequenceOutput> sequences = names.empty() ? std::vector<SequenceOutput>() : sequence_outputs(plan);
  std::vector<size_t> positions;
  for (size_t i = 0; names.empty() && i < outputs.size(); ++i) positions.push_back(i);
  for (const std::string& name : names) {
    const auto at = std::ranges::find(outputs, name, &TensorInfo::name);
    if (const auto s = std::ranges::find(sequences, name, &SequenceOutput::name); at == outputs.end() && s != sequences.end()) {
      for (size_t i = 0; i < s->count; ++i) positions.push_back(s->first + i);
      continue;
    }
    if (at == outputs.end()) {
      std::vector<std::string> all;
      for (const TensorInfo& o : outputs) all.push_back(o.name);
      const std::string suggestion = run::nearest(name, all);
      throw Error(fmt::format("there is no output '{}'{}", name,
                              suggestion.empty() ? "" : fmt::format("; did you mean '{}'?", suggestion)),
                  fmt::format("The model's outputs: {}", fmt::join(all, ", ")), ExitCode::usage);
    }
    positions.push_back(static_cast<size_t>(at - outputs.begin()));
  }
  return positions;
}

std::map<std::string, Tensor> named(const std::vector<TensorInfo>& outputs, const std::vector<size_t>& wanted,
                                    const std::vector<Tensor>& all) {
  std::map<std::string, Tensor> results;
  for (size_t i : wanted) results.emplace(outputs[i].name, all[i]);
  return results;
}

}  // namespace

Session::Session(const std::string& path, const Options& options) : Session(Plan::build(path, options)) {}
Session::Session(std::shared_ptr<const Plan> plan) : state_(std::make_unique<State>(std::move(plan))) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const std::vector<TensorInfo>& Session::inputs() const { return state_->plan->inputs(); }
const std::vector<TensorInfo>& Session::outputs() const { return state_->plan->outputs(); }

void Session::cancel() {
  const std::lock_guard lock(state_->mutex);
  for (run::ExecutionImpl* execution : state_->running) execution->cancel();
}

std::shared_ptr<const Plan> Session::plan() const { return state_->plan; }

std::map<std::string, Tensor> Session::run(const std::map<std::string, Tensor>& feeds, const std::vector<std::string>& names,
                                           std::span<const Cache> caches) {
  const std::vector<size_t> wanted = select(*state_->plan, names);
  const std::vector<Tensor> inputs = run::order_feeds(state_->plan->inputs(), feeds, caches);
  return named(outputs(), wanted, state_->run(inputs, caches));
}

std::vector<Tensor> Session::run_in_order(std::span<const Tensor> inputs) { return state_->run(inputs, {}); }

std::map<std::string, Tensor> Session::enqueue(const std::map<std::string, Tensor>& feeds, void* stream,
                                               const std::vector<std::string>& names, std::span<const Cache> caches) {
  const std::vector<size_t> wanted = select(*state_->plan, names);
  const std::vector<Tensor> inputs = run::order_feeds(state_->plan->inputs(), feeds, caches);
  State::Taken execution(*state_, stream);
  const std::vector<Tensor> all = execution->enqueue_fresh(inputs, stream, caches);
  execution.done();
  return named(outputs(), wanted, all);
}

}  // namespace smelt
