#include "device/cuda/cudnn.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {
namespace {

using abi::Dnn;

const Functions<Dnn>& opened() {
  static const auto made = [] {
    Functions<Dnn> f({"cuDNN", {"libcudnn.so.9"}, "with it smelt has NVIDIA's convolutions"},
                     "pip install nvidia-cudnn-cu13 (or -cu12), or install cuDNN 9.");
    f.load(&Dnn::version, "cudnnGetVersion");
    f.load(&Dnn::status_text, "cudnnGetErrorString");
    f.load(&Dnn::last_error, "cudnnGetLastErrorString");
#define X(name, symbol, ...) f.load(&Dnn::name, #symbol);
    SMELT_CUDNN(X)
#undef X
    return f;
  }();
  return made;
}

const Dnn& dnn() { return opened().get(); }

void check_dnn(abi::DnnStatus status, std::string_view doing) {
  if (status == abi::dnn_success) return;
  std::array<char, 512> message{};
  dnn().last_error(message.data(), message.size());
  fail("cuDNN: {}: {} ({})", doing, dnn().status_text(status), message.data());
}

void destroy(abi::DnnDescriptor descriptor) {
  if (descriptor) dnn().descriptor_destroy(descriptor);
}

}  // namespace

std::string cudnn_missing() { return opened().missing(); }

std::string cudnn_version() { return dnn(), "cuDNN " + cudnn_library().version; }

LibraryState cudnn_library() {
  if (!opened().missing().empty()) return opened().state("");
  const size_t v = dnn().version();
  return opened().state(fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100));
}

DnnObject::DnnObject(abi::DnnDescriptorType type, std::string_view what) : what_(what), descriptor_(nullptr, destroy) {
  abi::DnnDescriptor made = nullptr;
  check_dnn(dnn().descriptor_create(type, &made), what_);
  descriptor_.reset(made);
}

DnnObject& DnnObject::set(abi::DnnAttribute attribute, abi::DnnAttributeType type, int64_t count, const void* values) {
  check_dnn(dnn().descriptor_set(get(), attribute, type, count, values), what_);
  return *this;
}

DnnObject& DnnObject::finish() {
  check_dnn(dnn().descriptor_finalize(get()), what_);
  return *this;
}

bool DnnObject::try_finish() {
  const abi::DnnStatus status = dnn().descriptor_finalize(get());
  if (status >= abi::dnn_not_supported && status < abi::dnn_internal_error) return false;
  check_dnn(status, what_);
  return true;
}

int64_t DnnObject::get(abi::DnnAttribute attribute, abi::DnnAttributeType type, int64_t wanted, void* values) const {
  int64_t count = 0;
  check_dnn(dnn().descriptor_get(get(), attribute, type, wanted, &count, values), what_);
  return std::min(count, wanted);
}

DnnContext::DnnContext(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Device::Current current(*device_);
  check_dnn(dnn().create(&handle_), "starting");
}

DnnContext::~DnnContext() {
  const Device::Current current(*device_);
  for (abi::DnnHandle handle : free_) dnn().destroy(handle);
  dnn().destroy(handle_);
}

DnnContext::OwnHandle::OwnHandle(DnnContext& context) : context_(context) {
  {
    std::lock_guard lock(context_.making_mutex_);
    if (!context_.free_.empty()) {
      handle_ = context_.free_.back();
      context_.free_.pop_back();
      return;
    }
  }
  check_dnn(dnn().create(&handle_), "starting");
}

DnnContext::OwnHandle::~OwnHandle() {
  std::lock_guard lock(context_.making_mutex_);
  context_.free_.push_back(handle_);
}

std::shared_ptr<DnnContext> DnnContext::open(const std::shared_ptr<Device>& device) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<DnnContext>> contexts;
  std::lock_guard lock(mutex);
  std::weak_ptr<DnnContext>& slot = contexts[device->info().ordinal];
  std::shared_ptr<DnnContext> context = slot.lock();
  if (!context) slot = context = std::make_shared<DnnContext>(device);
  return context;
}

void DnnContext::execute(const DnnObject& plan, const DnnObject& pack, abi::Stream stream) {
  std::lock_guard lock(mutex_);
  const Device::Current current(*device_);
  check_dnn(dnn().set_stream(handle_, stream), "choosing a stream");
  check_dnn(dnn().execute(handle_, plan.get(), pack.get()), "running a plan");
}

bool DnnContext::compiles(int64_t engine) {
  constexpr int enough = 3;
  std::lock_guard lock(making_mutex_);
  const auto [made, failed] = compiled_[engine];
  return made > 0 || failed < enough;
}

void DnnContext::note(int64_t engine, bool compiled) {
  std::lock_guard lock(making_mutex_);
  ++(compiled ? compiled_[engine].first : compiled_[engine].second);
}

abi::DnnType dnn_type(DType t) {
  switch (t) {
    case DType::f32: return abi::dnn_f32;
    case DType::f64: return abi::dnn_f64;
    case DType::f16: return abi::dnn_f16;
    case DType::bf16: return abi::dnn_bf16;
    case DType::i8: return abi::dnn_i8;
    case DType::u8: return abi::dnn_u8;
    case DType::i32: return abi::dnn_i32;
    case DType::i64: return abi::dnn_i64;
    default: fail("cuDNN has no type for {}", name(t));
  }
}

DnnPlan::DnnPlan(std::shared_ptr<DnnContext> context, DnnObject plan, std::vector<int64_t> ids)
    : context_(std::move(context)), plan_(std::move(plan)), ids_(std::move(ids)) {
  plan_.get(abi::dnn_plan_workspace, abi::dnn_is_i64, 1, &workspace_);
}

void DnnPlan::run(std::span<const void* const> pointers, void* workspace, abi::Stream stream) {
  if (pointers.size() != ids_.size()) fail("cuDNN: {} tensors for a plan over {}", pointers.size(), ids_.size());
  DnnObject pack(abi::dnn_variant_pack, "giving a plan its tensors");
  pack.set(abi::dnn_pack_ids, ids_)
      .set(abi::dnn_pack_pointers, abi::dnn_is_pointer, static_cast<int64_t>(pointers.size()), pointers.data())
      .set(abi::dnn_pack_workspace, abi::dnn_is_pointer, 1, &workspace)
      .finish();
  context_->execute(plan_, pack, stream);
}

size_t DnnGraph::add_tensor(DType type, const Shape& shape, const Shape& strides, int64_t alignment, bool is_virtual) {
  const auto id = static_cast<int64_t>(tensors_.size()) + 1;
  DnnObject t(abi::dnn_tensor, "describing a tensor");
  t.set(abi::dnn_tensor_type, dnn_type(type))
      .set(abi::dnn_tensor_dimensions, shape)
      .set(abi::dnn_tensor_strides, strides)
      .set(abi::dnn_tensor_id, id)
      .set(abi::dnn_tensor_alignment, alignment)
      .set(abi::dnn_tensor_virtual, is_virtual)
      .finish();
  tensors_.push_back(std::move(t));
  return tensors_.size() - 1;
}

size_t DnnGraph::tensor(DType type, const Shape& shape, const Shape& strides, int64_t alignment) {
  const size_t t = add_tensor(type, shape, strides, alignment, false);
  ids_.push_back(static_cast<int64_t>(t) + 1);
  return t;
}

size_t DnnGraph::between(DType type, const Shape& shape, const Shape& strides) {
  return add_tensor(type, shape, strides, 16, true);
}

void DnnGraph::convolve(size_t x, size_t w, size_t y, DType sums, const Shape& stride, const Shape& dilation,
                        const Shape& pad_begin, const Shape& pad_end) {
  DnnObject window(abi::dnn_convolution, "describing a convolution");
  window.set(abi::dnn_convolution_type, dnn_type(sums))
      .set(abi::dnn_convolution_mode, abi::dnn_cross_correlation)
      .set(abi::dnn_convolution_axes, static_cast<int64_t>(stride.size()))
      .set(abi::dnn_convolution_strides, stride)
      .set(abi::dnn_convolution_dilations, dilation)
      .set(abi::dnn_convolution_pre_paddings, pad_begin)
      .set(abi::dnn_convolution_post_paddings, pad_end)
      .finish();
  DnnObject operation(abi::dnn_operation_convolution, "describing a convolution");
  operation.set(abi::dnn_forward_convolution, window)
      .set(abi::dnn_forward_x, tensors_[x])
      .set(abi::dnn_forward_w, tensors_[w])
      .set(abi::dnn_forward_y, tensors_[y])
      .set(abi::dnn_forward_alpha, 1.0f)
      .set(abi::dnn_forward_beta, 0.0f)
      .finish();
  parts_.push_back(std::move(window));
  operations_.push_back(std::move(operation));
}

void DnnGraph::pointwise(abi::DnnPointwise mode, size_t x, size_t y) { pointwise(mode, x, tensors_.size(), y); }

void DnnGraph::pointwise(abi::DnnPointwise mode, size_t x, size_t b, size_t y) {
  DnnObject function(abi::dnn_pointwise, "describing a function");
  function.set(abi::dnn_pointwise_mode, mode).set(abi::dnn_pointwise_precision, abi::dnn_f32).finish();
  DnnObject operation(abi::dnn_operation_pointwise, "describing a function");
  operation.set(abi::dnn_operation_pointwise_descriptor, function).set(abi::dnn_operation_pointwise_x, tensors_[x]);
  if (b < tensors_.size()) operation.set(abi::dnn_operation_pointwise_b, tensors_[b]);
  operation.set(abi::dnn_operation_pointwise_y, tensors_[y]).finish();
  parts_.push_back(std::move(function));
  operations_.push_back(std::move(operation));
}

std::vector<DnnGraph::Engine> DnnGraph::engines(const DnnRules& rules) {
  const Device::Current current(*context_->device());
  graph_ = std::make_unique<DnnObject>(abi::dnn_operation_graph, "describing a graph");
  std::vector<abi::DnnDescriptor> operations;
  for (const DnnObject& o : operations_) operations.push_back(o.get());
  graph_->set(abi::dnn_graph_operations, abi::dnn_is_descriptor, static_cast<int64_t>(operations.size()), operations.data())
      .set(abi::dnn_graph_handle, context_->handle());
  std::vector<Engine> found;
  if (!graph_->try_finish()) return found;
  constexpr size_t most = 24;
  std::vector<int64_t> answered;   // by mode a; where it has no answer of its own, mode b gives the same one again
  for (const abi::DnnHeuristicMode mode : {abi::dnn_mode_a, abi::dnn_mode_b}) {
    DnnObject heuristic(abi::dnn_heuristic, "asking for engines");
    heuristic.set(abi::dnn_heuristic_graph, *graph_).set(abi::dnn_heuristic_mode, mode);
    if (!heuristic.try_finish()) continue;
    std::vector<std::shared_ptr<DnnObject>> configs;
    std::vector<abi::DnnDescriptor> places;
    for (size_t i = 0; i < most; ++i) {
      configs.push_back(std::make_shared<DnnObject>(abi::dnn_engine_config, "asking for engines"));
      places.push_back(configs.back()->get());
    }
    const int64_t count = heuristic.get(abi::dnn_heuristic_results, abi::dnn_is_descriptor, most, places.data());
    std::vector<Engine> offered;
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const DnnObject engine(abi::dnn_engine, "asking about an engine");
      abi::DnnDescriptor place = engine.get();
      configs[i]->get(abi::dnn_config_engine, abi::dnn_is_descriptor, 1, &place);
      int64_t number = 0;
      engine.get(abi::dnn_engine_index, abi::dnn_is_i64, 1, &number);
      numbers.push_back(number);
      std::array<abi::DnnNumericalNote, abi::dnn_notes> notes{};
      const auto noted = static_cast<size_t>(
          engine.get(abi::dnn_engine_numerical_note, abi::dnn_is_numerical_note, abi::dnn_notes, notes.data()));
      const bool refused =
          std::any_of(notes.begin(), notes.begin() + static_cast<std::ptrdiff_t>(noted), [&](abi::DnnNumericalNote n) {
            return n == abi::dnn_not_deterministic || n == abi::dnn_rounds_inputs || n == abi::dnn_rounds_sums ||
                   n == abi::dnn_uses_fft || (n == abi::dnn_uses_tensor_cores && !rules.tensor_cores);
          });
      if (refused) continue;
      offered.push_back({fmt::format("{}{} engine {}", mode == abi::dnn_mode_a ? "a" : "b", i, number), number, configs[i]});
    }
    if (numbers == answered) continue;
    answered = std::move(numbers);
    found.insert(found.end(), offered.begin(), offered.end());
  }
  return found;
}

std::unique_ptr<DnnPlan> DnnGraph::plan(const Engine& engine) const {
  const Device::Current current(*context_->device());
  if (!context_->compiles(engine.number)) fail("cuDNN: engine {} compiled nothing so far: it is not tried again", engine.number);
  const DnnContext::OwnHandle handle(*context_);
  DnnObject plan(abi::dnn_plan, "making a plan");
  plan.set(abi::dnn_plan_handle, handle.get()).set(abi::dnn_plan_config, *engine.config);
  try {
    if (!plan.try_finish()) return nullptr;
  } catch (const Error&) {
    context_->note(engine.number, false);
    throw;
  }
  context_->note(engine.number, true);
  return std::unique_ptr<DnnPlan>(new DnnPlan(context_, std::move(plan), ids_));
}

}  // namespace smelt::device::cuda
