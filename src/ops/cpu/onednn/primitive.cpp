#include "ops/cpu/onednn/primitive.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/value_of.h"
#include "device/cpu/onednn_threads.h"
#include "expr/simd/isa.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::onednn {

const dnnl::engine& engine() {
  static const dnnl::engine e = [] {
    device::onednn_uses_team();
    // Kernels hold their primitives. oneDNN's cache gives descriptors out, too: copies whose brgemm parts point into the descriptor that
    // the cached primitive was made of, which is gone. One that is still to become a primitive when the cache drops that entry
    // crashes (oneDNN 3.2). Without the cache each descriptor is its own.
    dnnl::set_primitive_cache_capacity(0);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return e;
}

namespace {

dnnl::stream& stream() {
  static thread_local dnnl::stream s(engine());
  return s;
}

}  // namespace

bool has(dnnl::cpu_isa isa) {
  // Sets are nested along each of oneDNN's two lines; their numbers are bit masks of features.
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
}

dnnl::memory::data_type data_type(DType t) {
  using T = dnnl::memory::data_type;
  switch (t) {
    case DType::f32: return T::f32;
    case DType::f16: return T::f16;
    case DType::bf16: return T::bf16;
    case DType::i32: return T::s32;
    case DType::i8: return T::s8;
    case DType::u8: return T::u8;
    default: fail("oneDNN has no element type {}", name(t));
  }
}

dnnl::memory::desc describe(const BoundTensor& t, size_t rank) {
  dnnl::memory::dims dims(rank, 1), steps(rank, 0);
  // Steps along axes of one element do not count; oneDNN has implementations that compare them nonetheless.
  BoundTensor memory = t;
  if (is_dense(t)) memory.strides.clear();
  const Shape own = memory_strides(memory);
  const size_t shift = rank - t.shape.size();
  std::copy(t.shape.begin(), t.shape.end(), dims.begin() + static_cast<int64_t>(shift));
  std::copy(own.begin(), own.end(), steps.begin() + static_cast<int64_t>(shift));
  int64_t whole = 1;
  for (size_t i = shift; i < rank; ++i) whole = std::max(whole, dims[i] * steps[i]);
  for (size_t i = 0; i < shift; ++i) steps[i] = whole;
  return {dims, data_type(t.type), steps};
}

dnnl::memory::desc any_layout(const dnnl::memory::dims& dims, DType t) {
  return {dims, data_type(t), dnnl::memory::format_tag::any};
}

std::optional<Refusal> rejects_type(DType t) {
  switch (t) {
    case DType::f32:
    case DType::i8:
    case DType::u8:
    case DType::i32: return std::nullopt;
    case DType::bf16:
      if (has(dnnl::cpu_isa::avx512_core_bf16)) return std::nullopt;
      return refuse(Reason::wrong_machine, "this CPU has no bf16 arithmetic (AVX-512 BF16 or AMX)");
    case DType::f16:
      if (has(dnnl::cpu_isa::avx512_core_fp16)) return std::nullopt;
      return refuse(Reason::wrong_machine, "this CPU has no f16 arithmetic (AVX-512 FP16 or AMX)");
    default: return refuse(Reason::wrong_type, "oneDNN has no such element type");
  }
}

void append(dnnl::post_ops& ops, const CpuEpilogue& epilogue, const dnnl::memory::desc& output) {
  const CpuEpilogue::Simple& s = value_of(epilogue.simple(), "the epilogue that oneDNN applies");
  if (s.residual >= 0) ops.append_binary(dnnl::algorithm::binary_add, output);
  switch (s.end.activation) {
    case igemm::Activation::none: break;
    case igemm::Activation::clamp:
      if (s.end.low == 0 && s.end.high > 3e38f)
        ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
      else
        ops.append_eltwise(dnnl::algorithm::eltwise_clip_v2, s.end.low, s.end.high);
      break;
    case igemm::Activation::hard_swish: ops.append_eltwise(dnnl::algorithm::eltwise_hardswish, 1.0f / 6, 0.5f); break;
  }
  if (s.end.is_scaled) ops.append_eltwise(dnnl::algorithm::eltwise_linear, s.end.scale, s.end.shift);
}

bool is_fast(std::string_view implementation) {
  for (std::string_view slow : {"ref", "sse41", "simple"}) {
    if (implementation.find(slow) != std::string_view::npos) return false;
  }
  return true;
}

bool form_lasts(const dnnl::memory::desc& desc) {
  using T = dnnl::memory::data_type;
  const T type = desc.get_data_type();
  return desc.get_format_kind() == dnnl::memory::format_kind::blocked && (type == T::f32 || type == T::f16 || type == T::bf16);
}

std::string form_name(const dnnl::memory::desc& desc) {
  if (form_lasts(desc)) {
    Key name(to_text(desc.get_dims()));
    name.field(static_cast<int>(desc.get_data_type())).field(desc.get_padded_dims()).field(desc.get_padded_offsets());
    name.field(desc.get_submemory_offset()).field(desc.get_strides()).field(desc.get_inner_blks()).field(desc.get_inner_idxs());
    return name.text();
  }
  // oneDNN compares layouts, with what a form holds beside the weights (sums that shifted bytes need), and prints none.
  static std::mutex mutex;
  static std::map<dnnl::memory::dims, std::vector<dnnl::memory::desc>> known;
  const std::lock_guard lock(mutex);
  std::vector<dnnl::memory::desc>& same_dims = known[desc.get_dims()];
  const auto at = std::ranges::find(same_dims, desc);
  const auto number = at - same_dims.begin();
  if (at == same_dims.end()) same_dims.push_back(desc);
  return fmt::format("{}#{}", to_text(desc.get_dims()), number);
}

dnnl::primitive Implementation::primitive(int threads) const {
  const Threads scope(threads);
  try {
    return dnnl::primitive(desc.get());
  } catch (const dnnl::error& e) {
    fail("oneDNN: {}: {}", name, e.what());
  }
}

std::shared_ptr<dnnl_primitive_desc> clone(const_dnnl_primitive_desc_t desc) {
  dnnl_primitive_desc_t copy = nullptr;
  dnnl::error::wrap_c_api(dnnl_primitive_desc_clone(&copy, desc), "could not copy a primitive's descriptor");
  return {copy, [](dnnl_primitive_desc_t d) { dnnl_primitive_desc_destroy(d); }};
}

double rate(std::string_view implementation) {
  const auto uses = [&](std::string_view isa) { return implementation.find(isa) != std::string_view::npos; };
  if (uses("amx")) return 6;
  if (uses("avx512_core_bf16")) return 3;
  // Its own products of floats take the processor's registers whatever their name says.
  const bool is_wide = uses("avx512") || (uses("gemm:jit:f32") && simd::widest() == simd::Isa::avx512);
  return is_wide ? 1.6 : 1;
}

Tensor packed(WeightStore* store, const Tensor& constant, const Key& packing, const std::function<Tensor()>& source,
              const dnnl::memory::desc& from, const dnnl::memory::desc& to, int threads) {
  const auto pack = [&] { return packed(source(), from, to, threads); };
  if (!store) return pack();
  const std::string name = Key(packing).field(form_name(to)).text();
  if (!form_lasts(to)) return store->packed(constant, name, pack);
  return store->packed(constant, name, {DType::u8, {static_cast<int64_t>(to.get_size())}}, pack);
}

Tensor packed(const Tensor& source, const dnnl::memory::desc& from, const dnnl::memory::desc& to, int threads) {
  const Threads scope(threads);
  Tensor t = Tensor::empty(DType::u8, {static_cast<int64_t>(to.get_size())});
  dnnl::memory in(from, engine(), const_cast<void*>(source.raw())), out(to, engine(), t.raw());
  dnnl::reorder(in, out).execute(stream(), in, out);
  stream().wait();
  return t;
}

namespace {

dnnl::reorder::primitive_desc reorder_of(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {engine(), from, engine(), to, attr};
}

}  // namespace

Arrangement::Arrangement(const dnnl::memory::desc& from, const dnnl::memory::desc& to)
    : Arrangement(reorder_of(from, to), from, to) {}

Arrangement::Arrangement(const dnnl::reorder::primitive_desc& desc, const dnnl::memory::desc& from, const dnnl::memory::desc& to)
    : reorder_(dnnl::reorder(desc), desc.scratchpad_desc()), bytes_((static_cast<int64_t>(to.get_size()) + 63) / 64 * 64) {
  reorder_.add(DNNL_ARG_FROM, from);
  reorder_.add(DNNL_ARG_TO, to);
}

void Arrangement::run(void* to, const void* from, void* scratch) {
  reorder_.set(DNNL_ARG_FROM, const_cast<void*>(from));
  reorder_.set(DNNL_ARG_TO, to);
  reorder_.run(scratch);
}

void Primitive::add(int argument, const dnnl::memory::desc& desc, void* fixed) {
  memories_.emplace_back(desc, engine(), fixed);
  arguments_.push_back({argument, memories_.back().get()});
}

void Primitive::set(int argument, void* data) {
  for (size_t i = 0; i < memories_.size(); ++i) {
    if (arguments_[i].arg == argument) memories_[i].set_data_handle(data);
  }
}

void Primitive::run(void* scratch) {
  if (!scratch_memory_) {
    scratch_memory_ = dnnl::memory(scratchpad_, engine(), nullptr);
    arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratch_memory_.get()});
  }
  scratch_memory_.set_data_handle(scratch);
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) fail("oneDNN: executing a primitive failed with status {}", static_cast<int>(status));
}

}  // namespace smelt::ops::onednn
