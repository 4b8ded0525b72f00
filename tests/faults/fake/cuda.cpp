#include "faults/fake/cuda.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <mutex>
#include <vector>

#include "device/cuda/abi/driver.h"
#include "device/cuda/abi/places.h"

namespace abi = smelt::device::cuda::abi;

struct CUgraph_st {
  std::vector<std::function<void()>> nodes;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> nodes;
};
struct CUstream_st {
  CUgraph_st* capture = nullptr;
};
struct CUevent_st {};
struct CUctx_st {};
struct CUfunc_st {
  std::string name;
};
struct CUmod_st {
  std::list<CUfunc_st> functions;
};

namespace {

constexpr int no_binary = 209;

std::mutex mutex;
smelt::fake::Cuda state;
int lost = 0;
std::map<uintptr_t, size_t> blocks;
CUctx_st context;

/// What a call returns before it does anything.
int enter(const char* function) {
  std::lock_guard lock(mutex);
  const int calls = ++state.calls[function];
  if (lost) return lost;
  const auto fault = state.faults.find(function);
  if (fault == state.faults.end() || calls <= fault->second.after || fault->second.times-- <= 0) return abi::success;
  if (fault->second.result >= abi::illegal_address) lost = fault->second.result;
  return fault->second.result;
}

void put(abi::Stream stream, std::function<void()> work) {
  state.on_legacy_stream += stream == nullptr;
  if (stream && stream->capture)
    stream->capture->nodes.push_back(std::move(work));
  else
    work();
}

void copy(abi::Stream stream, uint64_t to, uint64_t from, size_t bytes) {
  put(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
}

bool on_device(abi::Address address) {
  std::lock_guard lock(mutex);
  const auto at = blocks.upper_bound(address);
  return at != blocks.begin() && address < std::prev(at)->first + std::prev(at)->second;
}

}  // namespace

#define CALL(function, ...)                                                     \
  extern "C" __attribute__((visibility("default"))) int function(__VA_ARGS__) { \
    if (const int result = enter(#function); result != abi::success) return result;
#define END            \
  return abi::success; \
  }

extern "C" __attribute__((visibility("default"))) smelt::fake::Cuda* smelt_fake_cuda() { return &state; }

extern "C" __attribute__((visibility("default"))) int cuGetErrorName(int error, const char** text) {
  static const std::map<int, const char*> names{{2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                {100, "CUDA_ERROR_NO_DEVICE"},
                                                {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  const auto at = names.find(error);
  *text = at == names.end() ? "CUDA_ERROR_OF_A_TEST" : at->second;
  return abi::success;
}
extern "C" __attribute__((visibility("default"))) int cuGetErrorString(int, const char** text) {
  *text = "made up";
  return abi::success;
}

CALL(cuInit, unsigned) END CALL(cuDriverGetVersion, int* version) * version = state.version;
END CALL(cuDeviceGetCount, int* count) * count = state.devices;
END CALL(cuDeviceGet, int* device, int ordinal) * device = ordinal;
END CALL(cuDeviceGetName, char* name, int size, int) std::strncpy(name, "Made-up GPU", static_cast<size_t>(size));
END CALL(cuDeviceGetUuid_v2, abi::Uuid* uuid, int) * uuid = {};
END CALL(cuDeviceTotalMem_v2, size_t* bytes, int) * bytes = state.memory;
END CALL(cuDeviceGetAttribute, int* value, abi::DeviceAttribute which, int) static const std::map<int, int> values{
    {abi::clock_rate_khz, 1300000},
    {abi::multiprocessor_count, 14},
    {abi::memory_clock_rate_khz, 3200000},
    {abi::memory_bus_bits, 256},
    {abi::l2_cache_bytes, 1 << 20},
    {abi::max_threads_per_multiprocessor, 1536},
    {abi::max_shared_memory_per_multiprocessor, 164 << 10},
    {abi::max_registers_per_multiprocessor, 65536},
    {abi::max_shared_memory_per_block_optin, 163 << 10},
    {abi::reserved_shared_memory_per_block, 1 << 10}};
const auto at = values.find(which);
*value = which == abi::compute_capability_major   ? state.major
         : which == abi::compute_capability_minor ? state.minor
         : at == values.end()                     ? 0
                                                  : at->second;
END CALL(cuDevicePrimaryCtxRetain, abi::Context* c, int) * c = &context;
END CALL(cuDevicePrimaryCtxRelease_v2, int) END CALL(cuCtxPushCurrent_v2, abi::Context) END
    CALL(cuCtxPopCurrent_v2, abi::Context* c) * c = &context;
END CALL(cuCtxSynchronize)
END

CALL(cuMemGetInfo_v2, size_t* free, size_t* total)
  *free = state.memory - state.used;
*total = state.memory;
END CALL(cuMemAlloc_v2, abi::Address* address, size_t bytes) std::lock_guard lock(mutex);
if (state.used + bytes > state.memory) return abi::out_of_memory;
*address = reinterpret_cast<abi::Address>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
std::memset(reinterpret_cast<void*>(*address), 0, bytes);
blocks[*address] = bytes;
state.used += bytes;
END CALL(cuMemFree_v2, abi::Address address) std::lock_guard lock(mutex);
const auto at = blocks.find(address);
if (at == blocks.end()) return abi::invalid_value;
state.used -= at->second;
blocks.erase(at);
std::free(reinterpret_cast<void*>(address));
END CALL(cuMemAllocHost_v2, void** memory, size_t bytes) * memory = std::calloc(bytes, 1);
END CALL(cuMemFreeHost, void* memory) std::free(memory);
END CALL(cuMemcpyHtoDAsync_v2, abi::Address to, const void* from, size_t bytes, abi::Stream stream)
    copy(stream, to, reinterpret_cast<uint64_t>(from), bytes);
END CALL(cuMemcpyDtoHAsync_v2, void* to, abi::Address from, size_t bytes, abi::Stream stream)
    copy(stream, reinterpret_cast<uint64_t>(to), from, bytes);
END CALL(cuMemcpyAsync, abi::Address to, abi::Address from, size_t bytes, abi::Stream stream) copy(stream, to, from, bytes);
END CALL(cuMemcpyDtoDAsync_v2, abi::Address to, abi::Address from, size_t bytes, abi::Stream stream)
    copy(stream, to, from, bytes);
END CALL(cuMemcpy2DAsync_v2, const abi::Copy2d* c, abi::Stream stream) for (size_t row = 0; row < c->height; ++row)
    copy(stream, c->to + row * c->to_pitch, c->from + row * c->from_pitch, c->width);
END CALL(cuMemsetD8Async, abi::Address to, unsigned char value, size_t count, abi::Stream stream)
    put(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, count); });
END CALL(cuPointerGetAttribute, void* value, abi::PointerAttribute which,
         abi::Address address) if (!on_device(address)) return abi::invalid_value;
if (which == abi::pointer_memory_type)
  *static_cast<unsigned*>(value) = abi::memory_device;
else
  *static_cast<int*>(value) = 0;
END

CALL(cuStreamCreate, abi::Stream* stream, unsigned) *stream = new CUstream_st;
END CALL(cuStreamDestroy_v2, abi::Stream stream) delete stream;
END CALL(cuStreamSynchronize, abi::Stream) END CALL(cuStreamWaitEvent, abi::Stream, abi::Event, unsigned) END
    CALL(cuStreamIsCapturing, abi::Stream stream, int* status) * status = stream && stream->capture ? 1 : 0;
END CALL(cuThreadExchangeStreamCaptureMode, abi::CaptureMode*) END
    CALL(cuStreamBeginCapture_v2, abi::Stream stream, abi::CaptureMode) stream->capture = new CUgraph_st;
END CALL(cuStreamGetCaptureInfo_v3, abi::Stream stream, int* status, uint64_t* id, abi::Graph* graph,
         const abi::GraphNode** nodes, const abi::GraphEdge** edges, size_t* count) * status = stream->capture ? 1 : 0;
*id = 1;
*graph = stream->capture;
*nodes = nullptr;
*edges = nullptr;
*count = 0;
END CALL(cuStreamEndCapture, abi::Stream stream, abi::Graph* graph) * graph = stream->capture;
stream->capture = nullptr;
END CALL(cuEventCreate, abi::Event* event, unsigned) * event = new CUevent_st;
END CALL(cuEventDestroy_v2, abi::Event event) delete event;
END CALL(cuEventRecord, abi::Event, abi::Stream) END CALL(cuEventQuery, abi::Event) END CALL(cuEventSynchronize, abi::Event) END
    CALL(cuEventElapsedTime, float* milliseconds, abi::Event, abi::Event) * milliseconds = 0.01f;
END

CALL(cuCtxGetStreamPriorityRange, int* least, int* greatest) * least = 0;
*greatest = -5;
END CALL(cuStreamCreateWithPriority, abi::Stream* stream, unsigned, int) * stream = new CUstream_st;
END CALL(cuDeviceGetDevResource, int, abi::Resource* whole, abi::ResourceType) whole->multiprocessors = {14, 2, 2};
END CALL(cuDevSmResourceSplitByCount, abi::Resource* part, unsigned* count, const abi::Resource* whole, abi::Resource* rest,
         unsigned, unsigned least) part->multiprocessors = {(least + 1) / 2 * 2, 2, 2};
rest->multiprocessors = {whole->multiprocessors.count - part->multiprocessors.count, 2, 2};
*count = 1;
END CALL(cuDevResourceGenerateDesc, abi::ResourceDescription* description, abi::Resource*, unsigned) * description = nullptr;
END CALL(cuGreenCtxCreate, abi::GreenContext* green, abi::ResourceDescription, int,
         unsigned) * green = reinterpret_cast<abi::GreenContext>(&context);
END CALL(cuGreenCtxDestroy, abi::GreenContext) END
    CALL(cuGreenCtxStreamCreate, abi::Stream* stream, abi::GreenContext, unsigned, int) * stream = new CUstream_st;
END

CALL(cuGraphDestroy, abi::Graph graph) delete graph;
END CALL(cuGraphGetNodes, abi::Graph graph, abi::GraphNode*, size_t* count) * count = graph->nodes.size();
END CALL(cuGraphGetEdges_v2, abi::Graph, abi::GraphNode*, abi::GraphNode*, abi::GraphEdge*, size_t* count) * count = 0;
END CALL(cuGraphInstantiateWithFlags, abi::GraphExec* exec, abi::Graph graph,
         unsigned long long) * exec = new CUgraphExec_st{graph->nodes};
END CALL(cuGraphExecDestroy, abi::GraphExec exec) delete exec;
END CALL(cuGraphLaunch, abi::GraphExec exec, abi::Stream) for (const auto& node : exec->nodes) node();
END

CALL(cuModuleLoadData, abi::Module* module, const void* image)
  if (std::memcmp(image, "\177ELF", 4) != 0 && std::memcmp(image, ".version", 8) != 0) return no_binary;
*module = new CUmod_st;
END CALL(cuModuleUnload, abi::Module module) delete module;
END CALL(cuModuleGetFunction, abi::Function* function, abi::Module module,
         const char* name) * function = &module->functions.emplace_back(CUfunc_st{name});
END CALL(cuFuncSetAttribute, abi::Function, abi::FunctionAttribute, int) END
    CALL(cuOccupancyMaxActiveClusters, int* clusters, abi::Function,
         const abi::LaunchConfig* config) * clusters = static_cast<int>(state.group / config->attributes[0].value.cluster.x);
END CALL(cuLaunchKernelEx, const abi::LaunchConfig* config, abi::Function function, void** parameters, void**)
    // Of all kernels one does what it is there for: src/device/cuda/booleans.h.
    if (function->name == "booleans") {
  auto* at = *static_cast<uint8_t**>(parameters[0]);
  const auto count = *static_cast<uint64_t*>(parameters[1]);
  put(config->stream, [=] {
    for (uint64_t i = 0; i < count; ++i) at[i] = at[i] != 0;
  });
}
else {
  put(config->stream, [] {});
}
END
