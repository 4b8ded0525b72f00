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

std::string DnnObject::text(abi::DnnAttribute attribute) const {
  int64_t count = 0;
  if (dnn().descriptor_get(get(), attribute, abi::dnn_is_char, 0, &count, nullptr) != abi::dnn_success) return {};
  std::string text(static_cast<size_t>(count), '\0');
  text.resize(static_cast<size_t>(get(attribute, abi::dnn_is_char, count, text.data())));
  return text;
}

std::vector<DnnObject> DnnObject::objects(abi::DnnAttribute attribute, abi::DnnDescriptorType type, int64_t most) const {
  std::vector<DnnObject> objects;
  std::vector<abi::DnnDescriptor> places;
  for (int64_t i = 0; i < most; ++i) places.push_back(objects.emplace_back(type, what_).get());
  const int64_t count = get(attribute, abi::dnn_is_descriptor, most, places.data());
  objects.erase(objects.begin() + count, objects.end());
  return objects;
}

DnnContext::DnnContext(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Device::Current current(*device_);
  check_dnn(dnn().create(&handle_), "starting");
}

DnnContext::~DnnContext() {
  if (!lost().empty()) return;  // cudnnDestroy (9.14) notes the error in a log of its own, and frees that twice
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

}  // namespace smelt::device::cuda
