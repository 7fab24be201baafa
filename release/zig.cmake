# CMake's toolchain file for wheels that run on Linux systems as old as glibc 2.28: `zig c++`, of the
# package ziglang, brings that C library's headers and symbols, for both machines, and its own C++
# runtime, which it links in. WARPLINE_MACHINE is x86_64 or aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{WARPLINE_MACHINE})
set(CMAKE_CXX_COMPILER python-zig c++ -target $ENV{WARPLINE_MACHINE}-linux-gnu.2.28)

# The linker has no --exclude-libs, and most of the runtime is hidden without it.
set(WARPLINE_RUNTIME_IS_HIDDEN ON)
# -s: here, because the system's `strip` may not know the other machine.
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/hidden.map")
# The same bytes wherever the sources are.
set(CMAKE_CXX_FLAGS_INIT "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=native -ffile-prefix-map=${CMAKE_BINARY_DIR}=build")
