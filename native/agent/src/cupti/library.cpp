#include "cupti/library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "os_calls/os_calls.h"

namespace warpline::agent {
namespace {

constexpr int kKnownMajors[] = {13, 12};

std::string file_name(int major) { return "libcupti.so." + std::to_string(major); }

// The major version that a path to a CUDA library tells; 0 when it tells none.
int major_of(std::string_view path) {
  for (const int major : kKnownMajors) {
    const std::string number = std::to_string(major);
    if (path.ends_with(".so." + number) || path.find("/cu" + number + "/") != path.npos ||
        path.find("cuda-" + number) != path.npos || path.find(".so." + number + ".") != path.npos) {
      return major;
    }
  }
  return 0;
}

// Folders of the CUDA libraries that are loaded: libcudart and its siblings, and what links them.
int collect_folder(dl_phdr_info* info, std::size_t, void* into) {
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return 0;
  const std::string_view file = path.substr(slash + 1);
  constexpr std::string_view kTelling[] = {"libcudart.so",  "libcublas",        "libnvrtc.so",
                                           "libcudnn",      "libtorch_cuda.so", "libtorch_cpu.so",
                                           "libc10_cuda.so", "libnccl.so",      "libcusparse.so"};
  const bool is_telling =
      std::any_of(std::begin(kTelling), std::end(kTelling),
                  [file](std::string_view start) { return file.starts_with(start); });
  if (!is_telling) return 0;
  auto& folders = *static_cast<std::vector<std::string>*>(into);
  const std::string folder(path.substr(0, slash));
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
  return 0;
}

void add_toolkit(std::vector<std::string>& paths, const std::string& root) {
  for (const int major : kKnownMajors) {
    paths.push_back(root + "/extras/CUPTI/lib64/" + file_name(major));
    paths.push_back(root + "/lib64/" + file_name(major));
  }
}

// Beside the CUDA libraries of the program: the same folder, the package of CUPTI next to the
// package that they are in, or the toolkit's own place.
void add_siblings(std::vector<std::string>& paths, const std::string& folder) {
  for (const int major : kKnownMajors) paths.push_back(folder + "/" + file_name(major));
  for (const char* up : {"/../..", "/../../nvidia", "/../../../nvidia"}) {
    paths.push_back(folder + up + "/cu13/lib/" + file_name(13));
    paths.push_back(folder + up + "/cuda_cupti/lib/" + file_name(12));
  }
  add_toolkit(paths, folder + "/..");
  add_toolkit(paths, folder + "/../../..");  // from targets/x86_64-linux/lib
}

// /usr/local/cuda-13.0 and the like, newest first.
std::vector<std::string> installed_toolkits() {
  std::vector<std::string> names;
  if (DIR* folder = opendir("/usr/local")) {
    while (const dirent* entry = readdir(folder)) {
      if (std::strncmp(entry->d_name, "cuda-", 5) == 0) names.emplace_back(entry->d_name);
    }
    closedir(folder);
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::atof(a.c_str() + 5) > std::atof(b.c_str() + 5);
  });
  std::vector<std::string> roots{"/usr/local/cuda"};
  for (const std::string& name : names) roots.push_back("/usr/local/" + name);
  return roots;
}

template <class Function>
bool load(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// Finds the functions. Returns the name of a needed one that is missing, or null.
const char* load_functions(void* library, cupti::Functions& f) {
  const char* missing = nullptr;
  const auto need = [&](const char* name, auto& function) {
    if (!load(library, name, function) && missing == nullptr) missing = name;
  };
  need("cuptiGetVersion", f.get_version);
  need("cuptiSubscribe", f.subscribe);
  need("cuptiUnsubscribe", f.unsubscribe);
  need("cuptiEnableCallback", f.enable_callback);
  need("cuptiGetCallbackName", f.get_callback_name);
  need("cuptiGetResultString", f.get_result_string);
  need("cuptiActivityRegisterCallbacks", f.register_callbacks);
  need("cuptiActivityEnable", f.enable);
  need("cuptiActivityDisable", f.disable);
  need("cuptiActivityFlushAll", f.flush_all);
  need("cuptiActivityGetNextRecord", f.next_record);
  need("cuptiActivityGetNumDroppedRecords", f.dropped_records);
  need("cuptiGetTimestamp", f.get_timestamp);
  load(library, "cuptiSubscribe_v2", f.subscribe_v2);
  load(library, "cuptiActivityRegisterTimestampCallback", f.register_timestamp);
  load(library, "cuptiActivityEnableAndDump", f.enable_and_dump);
  load(library, "cuptiSetThreadIdType", f.set_thread_id_type);
  load(library, "cuptiActivitySetAttribute", f.set_attribute);
  load(library, "cuptiActivityEnableAllSyncRecords", f.enable_all_sync_records);
  load(library, "cuptiGetGraphNodeId", f.graph_node_id);
  load(library, "cuptiGetGraphId", f.graph_id);
  load(library, "cuptiGetStreamIdEx", f.stream_id);
  load(library, "cuptiGetContextId", f.context_id);
  load(library, "cuptiActivityConfigureUnifiedMemoryCounter", f.choose_unified_memory);
  load(library, "cuptiFinalize", f.finalize);
  return missing;
}

// Finds what takes a subscriber. Returns whether all of it is there.
bool load_shared(void* library, cupti::SubscriberFunctions& f) {
  const bool are_there[] = {
      load(library, "cuptiActivityRegisterCallbacks_v2", f.register_callbacks),
      load(library, "cuptiActivityEnable_v2", f.enable),
      load(library, "cuptiActivityDisable_v2", f.disable),
      load(library, "cuptiActivityEnableAndDump_v2", f.enable_and_dump),
      load(library, "cuptiActivityGetNextRecord_v2", f.next_record),
      load(library, "cuptiActivityGetNumDroppedRecords_v2", f.dropped_records),
      load(library, "cuptiActivitySetAttribute_v2", f.set_attribute),
      load(library, "cuptiActivityGetAttribute_v2", f.get_attribute),
      load(library, "cuptiGetTimestamp_v2", f.get_timestamp),
  };
  return std::all_of(std::begin(are_there), std::end(are_there), [](bool is) { return is; });
}

std::string file_of(void* library, const std::string& otherwise) {
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr) {
    return map->l_name;
  }
  return otherwise;
}

// Takes a library that dlopen returned, if it is a CUPTI that the agent can use.
CuptiLibrary take(void* library, const std::string& path, std::string& problem) {
  CuptiLibrary found;
  const auto refuse = [&](const std::string& why) {
    problem += (problem.empty() ? "" : "; ") + file_of(library, path) + ": " + why;
    dlclose(library);
    return CuptiLibrary();
  };
  if (const char* missing = load_functions(library, found.own)) {
    return refuse(std::string("has no ") + missing);
  }
  found.functions = found.own;
  found.has_shared = found.own.subscribe_v2 != nullptr && load_shared(library, found.shared);
  std::uint32_t version = 0;
  if (const cupti::Result result = found.functions.get_version(&version);
      result != cupti::kSuccess) {
    return refuse("cuptiGetVersion failed (" + std::to_string(result) + ")");
  }
  if (version < cupti::kVersion12_0) {
    return refuse("is older than CUDA 12 (version " + std::to_string(version) + ")");
  }
  found.version = version;
  leave_out_calls_of(reinterpret_cast<const void*>(found.functions.get_version));
  found.file = file_of(library, path);
  return found;
}

CuptiLibrary take_loaded(std::string& problem) {
  for (const int major : kKnownMajors) {
    const std::string name = file_name(major);
    if (void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
      if (CuptiLibrary found = take(library, name, problem)) return found;
    }
  }
  return {};
}

bool is_absent(const char* error) {
  return error == nullptr || std::strstr(error, "No such file") != nullptr;
}

}  // namespace

int cuda_driver_version() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return 0;
  int version = 0;
  int (*get_version)(int*) = nullptr;
  if (load(driver, "cuDriverGetVersion", get_version)) get_version(&version);
  dlclose(driver);
  return version;
}

std::vector<std::string> cupti_candidates(const std::vector<std::string>& asked,
                                          int driver_major) {
  std::vector<std::string> paths = asked;
  std::vector<std::string> folders;
  dl_iterate_phdr(collect_folder, &folders);
  for (const std::string& folder : folders) add_siblings(paths, folder);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable)) add_toolkit(paths, root);
  }
  for (const std::string& root : installed_toolkits()) add_toolkit(paths, root);
  for (const int major : kKnownMajors) paths.push_back(file_name(major));
  if (driver_major != 0) {
    std::stable_partition(paths.begin(), paths.end(), [driver_major](const std::string& path) {
      return major_of(path) <= driver_major;
    });
  }
  return paths;
}

CuptiLibrary open_cupti(const std::vector<std::string>& asked, std::string& problem) {
  if (CuptiLibrary found = take_loaded(problem)) return found;
  for (const std::string& path : cupti_candidates(asked, cuda_driver_version() / 1000)) {
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      if (!is_absent(error)) problem += (problem.empty() ? "" : "; ") + std::string(error);
    } else if (CuptiLibrary found = take(library, path, problem)) {
      return found;
    }
  }
  if (problem.empty()) {
    problem = "libcupti was not found: install nvidia-cuda-cupti or a CUDA toolkit with CUPTI";
  }
  return {};
}

}  // namespace warpline::agent
