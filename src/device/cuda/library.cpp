#include "device/cuda/library.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace smelt::device::cuda {
namespace {

namespace fs = std::filesystem;

/// The folder of the file that this code is in: the command, libsmelt.so or the Python module.
fs::path own_folder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&own_folder), &info) || !info.dli_fname) return {};
  std::error_code ignored;
  return fs::weakly_canonical(info.dli_fname, ignored).parent_path();
}

/// The file that an open library was read from.
std::string path_of(void* handle, const std::string& file) {
  const link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] ? map->l_name : file;
}

void add_wheels(const fs::path& site_packages, std::vector<std::string>& folders) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(site_packages / "nvidia", ignored))
    if (const fs::path lib = entry.path() / "lib"; fs::is_directory(lib, ignored)) folders.push_back(lib.string());
}

bool write_all(int to, const MappedFile& file) {
  for (int64_t at = 0; at < file.size();) {
    const ssize_t written = write(to, file.data() + at, static_cast<size_t>(file.size() - at));
    if (written <= 0) return false;
    at += written;
  }
  return true;
}

/// Opens a copy of the file. The dynamic linker knows a library by its inode: the copy has another. Null where it cannot.
void* open_copy(const std::string& path) {
  const int copy = memfd_create(path.substr(path.rfind('/') + 1).c_str(), MFD_CLOEXEC);
  if (copy < 0) return nullptr;
  void* handle = nullptr;
  try {
    if (write_all(copy, *MappedFile::open(path)))
      handle = dlopen(fmt::format("/proc/self/fd/{}", copy).c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (const Error&) {  // a file that cannot be read any more
  }
  // An open library's name must go on meaning this file, or the next copy would be taken for this one.
  if (!handle) close(copy);
  return handle;
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  if (const char* root = std::getenv("CUDA_PATH"); root && *root)
    for (const char* lib : {"lib64", "lib"}) folders.push_back((fs::path(root) / lib).string());
  // The package is site-packages/smelt, its command site-packages/smelt/bin/smelt.
  for (fs::path at = own_folder(); at.has_relative_path(); at = at.parent_path()) {
    if (at.filename() != "site-packages" && at.filename() != "dist-packages") continue;
    add_wheels(at, folders);
    break;
  }
  folders.push_back("/usr/local/cuda/lib64");
  return folders;
}

Library::Library(std::string name, const std::vector<std::string>& files, std::string gives)
    : name_(std::move(name)), gives_(std::move(gives)) {
  const auto open = [&](const std::string& file) {
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) path_ = path_of(handle_, file);
    return handle_ != nullptr;
  };
  for (const std::string& file : files) {
    if (open(file)) return;
    if (!tried_.empty()) tried_ += ", ";
    tried_ += file;
  }
  for (const std::string& folder : library_folders())
    for (const std::string& file : files)
      if (open(fmt::format("{}/{}", folder, file))) return;
}

Library Library::own_instance() const {
  Library own = *this;
  if (void* handle = handle_ ? open_copy(path_) : nullptr) own.handle_ = handle;
  return own;
}

void* Library::find(const char* symbol) const { return handle_ ? dlsym(handle_, symbol) : nullptr; }

std::string Library::lacks(const char* symbol) const {
  if (!handle_) return missing();
  return fmt::format("{} ({}) has no {}: it is older than what smelt was written for", name_, path_, symbol);
}

std::string Library::missing() const { return handle_ ? "" : fmt::format("{} was not found ({}): {}", name_, tried_, gives_); }

}  // namespace smelt::device::cuda
