#include "device/cuda/cubins.h"

#include <atomic>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "kernels/embedded.h"

namespace smelt::device::cuda {
namespace {

constexpr std::string_view magic = "smelt-cubin 2";

/// Two hashes of the same text from different seeds: 128 bits, so that two kernels never meet.
class KeyHash {
 public:
  void add(std::string_view text) {
    const auto size = static_cast<int64_t>(text.size());
    for (uint64_t* h : {&a_, &b_}) *h = hash_bytes(text.data(), size, hash_bytes(&size, sizeof size, *h));
  }
  std::string text() const { return fmt::format("{:016x}{:016x}", a_, b_); }

 private:
  uint64_t a_ = 14695981039346656037ull, b_ = 0x9e3779b97f4a7c15ull;
};

std::string checksum(std::string_view bytes) {
  return fmt::format("{:016x}", hash_bytes(bytes.data(), static_cast<int64_t>(bytes.size())));
}

}  // namespace

std::string to_file(const Cubin& cubin, std::string_view key) {
  std::string file = fmt::format("{}\n{}\n", key, cubin.kernels.size());
  for (const KernelResources& k : cubin.kernels)
    file += fmt::format("{} {} {} {} {} {}\n", k.entry, k.registers, k.stack_bytes, k.spill_store_bytes, k.spill_load_bytes,
                        k.static_shared_bytes);
  file += fmt::format("{}\n{}", cubin.bytes.size(), cubin.bytes);
  return fmt::format("{}\n{}\n{}", magic, checksum(file), file);
}

std::shared_ptr<const Cubin> from_file(std::string_view file, std::string_view key) {
  std::istringstream in{std::string(file)};
  std::string line, sum, its_key;
  size_t kernels = 0, size = 0;
  if (!std::getline(in, line) || line != magic || !std::getline(in, sum)) return nullptr;
  if (const auto rest = in.tellg(); rest < 0 || sum != checksum(file.substr(static_cast<size_t>(rest)))) return nullptr;
  if (!std::getline(in, its_key) || its_key != key) return nullptr;
  if (!(in >> kernels) || kernels > 1000) return nullptr;
  auto cubin = std::make_shared<Cubin>();
  cubin->kernels.resize(kernels);
  for (KernelResources& k : cubin->kernels)
    if (!(in >> k.entry >> k.registers >> k.stack_bytes >> k.spill_store_bytes >> k.spill_load_bytes >> k.static_shared_bytes))
      return nullptr;
  if (!(in >> size) || in.get() != '\n') return nullptr;
  const auto at = static_cast<size_t>(in.tellg());
  if (file.size() != at + size) return nullptr;
  cubin->bytes = file.substr(at);
  return cubin;
}

CubinStore::CubinStore(std::filesystem::path folder, Compile compile)
    : folder_(std::move(folder)), compile_(std::move(compile)) {}

std::string CubinStore::key(const Source& source, std::string_view arch, std::string_view compiler) {
  static const std::string headers = [] {
    KeyHash hash;
    for (const kernels::File& f : kernels::files()) {
      hash.add(f.name);
      hash.add(f.text);
    }
    return hash.text();
  }();
  KeyHash hash;
  hash.add(magic);
  hash.add(source.code);
  for (const std::string& o : source.options) hash.add(o);
  hash.add(arch);
  hash.add(compiler);
  hash.add(headers);
  return hash.text();
}

std::filesystem::path CubinStore::path_of(const std::string& key) const { return folder_ / key.substr(0, 2) / (key + ".cubin"); }

std::shared_ptr<const Cubin> CubinStore::read(const std::string& key) const {
  std::error_code ignored;
  if (!std::filesystem::exists(path_of(key), ignored)) return nullptr;
  try {
    const auto file = MappedFile::open(path_of(key));
    auto cubin = from_file({reinterpret_cast<const char*>(file->data()), static_cast<size_t>(file->size())}, key);
    if (!cubin) warn("{} is damaged; its kernel is compiled again", path_of(key).string());
    return cubin;
  } catch (const Error&) {   // removed in between, or not ours to read
    return nullptr;
  }
}

void CubinStore::write(const std::string& key, const Cubin& cubin) {
  try {
    std::filesystem::create_directories(path_of(key).parent_path());
    AtomicFile file(path_of(key));
    file.write(to_file(cubin, key));
    file.commit();
  } catch (const std::exception& e) {
    std::lock_guard lock(mutex_);
    if (!std::exchange(warned_, true)) warn("{}; compiled kernels are not kept", e.what());
  }
}

std::shared_ptr<const Cubin> CubinStore::get(const Source& source, std::string_view arch) {
  const std::string id = key(source, arch);
  std::unique_lock lock(mutex_);
  made_.wait(lock, [&] { return !making_.contains(id); });
  if (const auto at = known_.find(id); at != known_.end()) {
    ++stats_.from_memory;
    return at->second;
  }
  making_.insert(id);
  lock.unlock();
  std::shared_ptr<const Cubin> cubin;
  std::exception_ptr failure;
  try {
    cubin = make(source, arch);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  making_.erase(id);
  if (cubin) known_.try_emplace(id, cubin);
  lock.unlock();
  made_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return cubin;
}

std::shared_ptr<const Cubin> CubinStore::make(const Source& source, std::string_view arch) {
  // On disk, what another compiler made is another kernel.
  const bool on_disk = !folder_.empty() && compiler_missing().empty();
  const std::string id = on_disk ? key(source, arch, compiler_version()) : "";
  auto cubin = on_disk ? read(id) : nullptr;
  const bool found = cubin != nullptr;
  if (!found) {
    try {
      cubin = std::make_shared<Cubin>(compile_(source, arch));
    } catch (const CompilerMissing& e) {
      if (!carries_) throw;
      throw CompilerMissing(fmt::format("the plan does not carry the kernel of {}, or not undamaged, and {}", source.name, e.what()),
                            "Write the plan again with this smelt (smelt optimize --embed-kernels), or install NVRTC.",
                            ExitCode::unsupported);
    }
    if (on_disk) write(id, *cubin);
  }
  std::lock_guard lock(mutex_);
  ++(found ? stats_.from_disk : stats_.compiled);
  stats_.seconds += cubin->seconds;
  return cubin;
}

std::vector<std::shared_ptr<const Cubin>> CubinStore::get_all(std::span<const Source> sources, std::string_view arch, int threads,
                                                              std::vector<std::string>* errors,
                                                              const std::function<void(int done, int total)>& progress) {
  std::vector<std::shared_ptr<const Cubin>> cubins(sources.size());
  if (errors) errors->assign(sources.size(), "");
  std::atomic<size_t> next = 0;
  std::mutex reporting;
  int done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < sources.size(); i = next++) {
      std::string why;
      try {
        cubins[i] = get(sources[i], arch);
      } catch (const std::exception& e) {
        why = e.what();
      }
      std::lock_guard lock(reporting);
      if (errors) (*errors)[i] = why;
      if (progress) progress(++done, static_cast<int>(sources.size()));
    }
  };
  std::vector<std::jthread> helpers;
  for (int i = 1; i < std::min<int>(threads, static_cast<int>(sources.size())); ++i) helpers.emplace_back(work);
  work();
  return cubins;
}

void CubinStore::carry(const Cubins& cubins) {
  std::lock_guard lock(mutex_);
  known_.insert(cubins.begin(), cubins.end());
  carries_ = true;
}

Cubins CubinStore::in_memory() const {
  std::lock_guard lock(mutex_);
  return known_;
}

CubinStats CubinStore::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace smelt::device::cuda
