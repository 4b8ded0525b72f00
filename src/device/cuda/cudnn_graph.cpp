#include "device/cuda/cudnn_graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "base/error.h"

namespace smelt::device::cuda {
namespace {

/// Notes of one kind that an engine carries.
template <class Note>
std::vector<Note> notes_of(const DnnObject& engine, abi::DnnAttribute attribute, abi::DnnAttributeType type) {
  std::vector<Note> notes(abi::dnn_most_notes);
  notes.resize(static_cast<size_t>(engine.get(attribute, type, abi::dnn_most_notes, notes.data())));
  return notes;
}

DnnNotes notes_of(const DnnObject& engine) {
  return {notes_of<abi::DnnNumericalNote>(engine, abi::dnn_engine_numerical_note, abi::dnn_is_numerical_note),
          notes_of<abi::DnnBehaviorNote>(engine, abi::dnn_engine_behavior_note, abi::dnn_is_behavior_note)};
}

bool has(const auto& notes, auto note) { return std::ranges::find(notes, note) != notes.end(); }

/// "12 2=5 13=1".
std::string settings_of(const DnnObject& config, int64_t number) {
  std::string text = std::to_string(number);
  for (const DnnObject& choice : config.objects(abi::dnn_config_choices, abi::dnn_knob_choice, abi::dnn_most_knobs)) {
    int knob = 0;
    int64_t value = 0;
    choice.get(abi::dnn_choice_knob, abi::dnn_is_knob, 1, &knob);
    choice.get(abi::dnn_choice_value, abi::dnn_is_i64, 1, &value);
    text += fmt::format(" {}={}", knob, value);
  }
  return text;
}

/// Engines as lines of name, number, whether it compiles, and settings between tabs.
std::string written(const std::vector<DnnGraph::Engine>& engines) {
  std::string text;
  for (const DnnGraph::Engine& e : engines) text += fmt::format("{}\t{}\t{}\t{}\n", e.name, e.number, e.compiles, e.settings);
  return text;
}

std::vector<DnnGraph::Engine> read_engines(const std::string& text) {
  std::vector<DnnGraph::Engine> engines;
  std::istringstream in(text);
  std::string number, compiles;
  for (DnnGraph::Engine e; std::getline(in, e.name, '\t') && std::getline(in, number, '\t') && std::getline(in, compiles, '\t') &&
                           std::getline(in, e.settings);) {
    e.number = std::stoll(number);
    e.compiles = compiles == "true";
    engines.push_back(e);
  }
  return engines;
}

}  // namespace

std::shared_ptr<const KeptFiles> dnn_plan_files(std::filesystem::path folder) {
  return std::make_shared<const KeptFiles>(std::move(folder), "smelt-cudnn-plan 1", ".plan", "cuDNN's compiled plans");
}

std::string print(const DnnRules& rules) {
  return fmt::format("tensor_cores={} deterministic={}", rules.tensor_cores, rules.deterministic);
}

bool allows(const DnnRules& rules, const DnnNotes& notes) {
  return (rules.tensor_cores || !has(notes.numbers, abi::dnn_uses_tensor_cores)) &&
         (!rules.deterministic || !has(notes.numbers, abi::dnn_not_deterministic)) &&
         !has(notes.numbers, abi::dnn_rounds_inputs) && !has(notes.numbers, abi::dnn_rounds_sums) &&
         !has(notes.numbers, abi::dnn_uses_fft) && !has(notes.behaviors, abi::dnn_wants_reordered_weights) &&
         !has(notes.behaviors, abi::dnn_wants_reordered_bias);
}

DnnPlan::DnnPlan(std::shared_ptr<DnnContext> context, DnnObject plan, const DnnBindings& bindings)
    : context_(std::move(context)), plan_(std::move(plan)), bindings_(bindings) {
  plan_.get(abi::dnn_plan_workspace, abi::dnn_is_i64, 1, &workspace_);
}

void DnnPlan::run(std::span<const void* const> pointers, void* workspace, abi::Stream stream) {
  const DnnBindings& b = bindings_;
  if (pointers.size() != b.ids.size()) fail("cuDNN: {} tensors for a plan over {}", pointers.size(), b.ids.size());
  std::vector<int64_t> ids = b.ids;
  std::vector<const void*> all(pointers.begin(), pointers.end());
  ids.insert(ids.end(), b.scalar_ids.begin(), b.scalar_ids.end());
  for (const float& s : b.scalars) all.push_back(&s);
  DnnObject pack(abi::dnn_variant_pack, "giving a plan its tensors");
  pack.set(abi::dnn_pack_ids, ids)
      .set(abi::dnn_pack_pointers, abi::dnn_is_pointer, static_cast<int64_t>(all.size()), all.data())
      .set(abi::dnn_pack_workspace, abi::dnn_is_pointer, 1, &workspace)
      .finish();
  context_->execute(plan_, pack, stream);
}

size_t DnnGraph::add_tensor(abi::DnnType type, const Shape& shape, const Shape& strides, int64_t alignment, bool is_virtual,
                            bool is_scalar) {
  const auto id = static_cast<int64_t>(tensors_.size()) + 1;
  DnnObject t(abi::dnn_tensor, "describing a tensor");
  t.set(abi::dnn_tensor_type, type)
      .set(abi::dnn_tensor_dimensions, shape)
      .set(abi::dnn_tensor_strides, strides)
      .set(abi::dnn_tensor_id, id)
      .set(abi::dnn_tensor_alignment, alignment)
      .set(abi::dnn_tensor_virtual, is_virtual);
  if (is_scalar) t.set(abi::dnn_tensor_by_value, true);
  t.finish();
  tensors_.push_back(std::move(t));
  text_ += fmt::format("tensor {} {} {} {} {} {}\n", static_cast<int>(type), fmt::join(shape, ","), fmt::join(strides, ","),
                       alignment, is_virtual, is_scalar);
  return tensors_.size() - 1;
}

size_t DnnGraph::tensor(DType type, const Shape& shape, const Shape& strides, int64_t alignment) {
  const size_t t = add_tensor(dnn_type(type), shape, strides, alignment, false, false);
  bindings_.ids.push_back(static_cast<int64_t>(t) + 1);
  return t;
}

size_t DnnGraph::between(abi::DnnType type, const Shape& shape, const Shape& strides) {
  return add_tensor(type, shape, strides, 16, true, false);
}

size_t DnnGraph::scalar(float value, size_t rank) {
  const size_t t = add_tensor(abi::dnn_f32, Shape(rank, 1), Shape(rank, 1), 4, false, true);
  bindings_.scalar_ids.push_back(static_cast<int64_t>(t) + 1);
  bindings_.scalars.push_back(value);
  return t;
}

void DnnGraph::add_operation(DnnObject operation) {
  operation.finish();
  operations_.push_back(std::move(operation));
}

void DnnGraph::convolve(size_t x, size_t w, size_t y, DType sums, const Shape& stride, const Shape& dilation,
                        const Shape& pad_begin, const Shape& pad_end) {
  DnnObject& window = parts_.emplace_back(abi::dnn_convolution, "describing a convolution");
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
      .set(abi::dnn_forward_beta, 0.0f);
  add_operation(std::move(operation));
  text_ += fmt::format("convolve {} {} {} {} {} {} {} {}\n", x, w, y, name(sums), fmt::join(stride, ","),
                       fmt::join(dilation, ","), fmt::join(pad_begin, ","), fmt::join(pad_end, ","));
}

void DnnGraph::pool(size_t x, size_t y, abi::DnnResample mode, const Shape& window, const Shape& stride, const Shape& pad_begin,
                    const Shape& pad_end) {
  const auto whole = [](const Shape& numbers) {
    std::vector<abi::DnnFraction> fractions;
    for (const int64_t n : numbers) fractions.push_back({n});
    return fractions;
  };
  DnnObject& windows = parts_.emplace_back(abi::dnn_resample, "describing a pooling");
  windows.set(abi::dnn_resample_mode, mode)
      .set(abi::dnn_resample_type, abi::dnn_f32)
      .set(abi::dnn_resample_axes, static_cast<int64_t>(window.size()))
      .set(abi::dnn_resample_window, whole(window))
      .set(abi::dnn_resample_strides, whole(stride))
      .set(abi::dnn_resample_pre_paddings, whole(pad_begin))
      .set(abi::dnn_resample_post_paddings, whole(pad_end))
      .set(abi::dnn_resample_padding_mode, mode == abi::dnn_largest ? abi::dnn_minus_infinity : abi::dnn_zeros)
      .finish();
  DnnObject operation(abi::dnn_operation_resample, "describing a pooling");
  operation.set(abi::dnn_operation_resample_descriptor, windows)
      .set(abi::dnn_operation_resample_x, tensors_[x])
      .set(abi::dnn_operation_resample_y, tensors_[y]);
  add_operation(std::move(operation));
  text_ += fmt::format("pool {} {} {} {} {} {} {}\n", x, y, static_cast<int>(mode), fmt::join(window, ","),
                       fmt::join(stride, ","), fmt::join(pad_begin, ","), fmt::join(pad_end, ","));
}

void DnnGraph::pointwise(const DnnFunction& f, std::initializer_list<size_t> inputs, size_t y) {
  DnnObject& function = parts_.emplace_back(abi::dnn_pointwise, "describing a function");
  function.set(abi::dnn_pointwise_mode, f.mode).set(abi::dnn_pointwise_precision, f.precision);
  if (f.axis >= 0) function.set(abi::dnn_pointwise_axis, f.axis);
  function.finish();
  DnnObject operation(abi::dnn_operation_pointwise, "describing a function");
  operation.set(abi::dnn_operation_pointwise_descriptor, function);
  constexpr std::array places{abi::dnn_operation_pointwise_x, abi::dnn_operation_pointwise_b, abi::dnn_operation_pointwise_t};
  size_t i = 0;
  for (const size_t input : inputs) operation.set(places[i++], tensors_[input]);
  operation.set(abi::dnn_operation_pointwise_y, tensors_[y]);
  add_operation(std::move(operation));
  text_ += fmt::format("pointwise {} {} {} {} {}\n", static_cast<int>(f.mode), static_cast<int>(f.precision), f.axis,
                       fmt::join(inputs, ","), y);
}

void DnnGraph::multiply(size_t a, size_t b, size_t c) {
  DnnObject& product = parts_.emplace_back(abi::dnn_matmul, "describing a product");
  product.set(abi::dnn_matmul_type, abi::dnn_f32).finish();
  DnnObject operation(abi::dnn_operation_matmul, "describing a product");
  operation.set(abi::dnn_operation_matmul_descriptor, product)
      .set(abi::dnn_operation_matmul_a, tensors_[a])
      .set(abi::dnn_operation_matmul_b, tensors_[b])
      .set(abi::dnn_operation_matmul_c, tensors_[c]);
  add_operation(std::move(operation));
  text_ += fmt::format("multiply {} {} {}\n", a, b, c);
}

void DnnGraph::reduce(abi::DnnReduction operation, size_t x, size_t y) {
  DnnObject& reduction = parts_.emplace_back(abi::dnn_reduction, "describing a reduction");
  reduction.set(abi::dnn_reduction_operator, operation).set(abi::dnn_reduction_type, abi::dnn_f32).finish();
  DnnObject reduces(abi::dnn_operation_reduction, "describing a reduction");
  reduces.set(abi::dnn_operation_reduction_descriptor, reduction)
      .set(abi::dnn_operation_reduction_x, tensors_[x])
      .set(abi::dnn_operation_reduction_y, tensors_[y]);
  add_operation(std::move(reduces));
  text_ += fmt::format("reduce {} {} {}\n", static_cast<int>(operation), x, y);
}

std::vector<DnnGraph::Engine> DnnGraph::engines(const DnnRules& rules, const KeptFiles& kept) {
  rules_ = rules;
  const std::string id = kept.any() ? key("engines " + print(rules)) : "";
  if (const auto text = id.empty() ? std::nullopt : kept.read(id)) return read_engines(*text);
  const std::vector<Engine>& engines = ask();
  if (!id.empty()) kept.write(id, written(engines));
  return engines;
}

const std::vector<DnnGraph::Engine>& DnnGraph::ask() const {
  std::lock_guard lock(asked_->mutex);
  std::vector<Engine>& found = asked_->engines;
  std::unique_ptr<DnnObject>& graph = asked_->graph;
  if (graph) return found;
  const Device::Current current(*context_->device());
  const DnnContext::OwnHandle handle(*context_);
  graph = std::make_unique<DnnObject>(abi::dnn_operation_graph, "describing a graph");
  std::vector<abi::DnnDescriptor> operations;
  for (const DnnObject& o : operations_) operations.push_back(o.get());
  graph->set(abi::dnn_graph_operations, abi::dnn_is_descriptor, static_cast<int64_t>(operations.size()), operations.data())
      .set(abi::dnn_graph_handle, handle.get());
  if (!graph->try_finish()) return found;
  constexpr int64_t most = 24;
  std::set<std::string> seen;  // settings: mode b gives some of mode a's answers again
  for (const abi::DnnHeuristicMode mode : {abi::dnn_mode_a, abi::dnn_mode_b}) {
    DnnObject heuristic(abi::dnn_heuristic, "asking for engines");
    heuristic.set(abi::dnn_heuristic_graph, *graph).set(abi::dnn_heuristic_mode, mode);
    if (!heuristic.try_finish()) continue;
    std::vector<DnnObject> configs = heuristic.objects(abi::dnn_heuristic_results, abi::dnn_engine_config, most);
    for (size_t i = 0; i < configs.size(); ++i) {
      const DnnObject engine(abi::dnn_engine, "asking about an engine");
      abi::DnnDescriptor place = engine.get();
      configs[i].get(abi::dnn_config_engine, abi::dnn_is_descriptor, 1, &place);
      int64_t number = 0;
      engine.get(abi::dnn_engine_index, abi::dnn_is_i64, 1, &number);
      std::string settings = settings_of(configs[i], number);
      const DnnNotes notes = notes_of(engine);
      if (!seen.insert(settings).second || !allows(rules_, notes)) continue;
      found.push_back({fmt::format("{}{} engine {}{}", mode == abi::dnn_mode_a ? "a" : "b", i, number,
                                   has(notes.numbers, abi::dnn_not_deterministic) ? " nondeterministic" : ""),
                       number, std::move(settings), has(notes.behaviors, abi::dnn_compiles),
                       std::make_shared<const DnnObject>(std::move(configs[i]))});
    }
  }
  return found;
}

std::string DnnGraph::key(std::string_view what) const {
  const DeviceInfo& device = context_->device()->info();
  return KeyHash()
      .add(cudnn_version())
      .add(fmt::format("{} {} {} {}", device.name, device.arch, device.multiprocessors, device.driver))
      .add(text_)
      .add(what)
      .text();
}

std::unique_ptr<DnnPlan> DnnGraph::from_text(const std::string& text, abi::DnnHandle handle) const {
  DnnObject plan(abi::dnn_plan, "making a plan of its text");
  plan.set(abi::dnn_plan_handle, handle).set(abi::dnn_plan_text, std::string_view(text));
  if (!plan.try_finish()) return nullptr;
  return std::unique_ptr<DnnPlan>(new DnnPlan(context_, std::move(plan), bindings_));
}

std::unique_ptr<DnnPlan> DnnGraph::plan(const Engine& engine, const KeptFiles& kept) const {
  const Device::Current current(*context_->device());
  const DnnContext::OwnHandle handle(*context_);
  const std::string id = kept.any() ? key(engine.settings) : "";
  if (const auto text = id.empty() ? std::nullopt : kept.read(id)) {
    try {
      if (auto plan = from_text(*text, handle.get())) return plan;
    } catch (const Error&) {  // what this library does not take as its own any more is made again
    }
  }
  if (!context_->compiles(engine.number)) fail("cuDNN: engine {} compiled nothing so far: it is not tried again", engine.number);
  std::shared_ptr<const DnnObject> config = engine.config;
  for (const Engine& e : config ? std::vector<Engine>{} : ask())
    if (e.settings == engine.settings) config = e.config;
  if (!config) return nullptr;
  DnnObject plan(abi::dnn_plan, "making a plan");
  plan.set(abi::dnn_plan_handle, handle.get()).set(abi::dnn_plan_config, *config);
  try {
    if (!plan.try_finish()) return nullptr;
  } catch (const Error&) {
    context_->note(engine.number, false);
    throw;
  }
  context_->note(engine.number, true);
  if (!id.empty())
    if (const std::string text = plan.text(abi::dnn_plan_text); !text.empty()) kept.write(id, text);
  return std::unique_ptr<DnnPlan>(new DnnPlan(context_, std::move(plan), bindings_));
}

}  // namespace smelt::device::cuda
