# How is the simulated CUDA built? `make sim` gives $(BUILD)/sim/libcuda.so.1, libcudart.so.13, libcudart_static.a and the
# links programs are linked against. SIM_TEST is the simulator's own test, built from the same fragment.

CUDA_HOME ?= /usr/local/cuda
SIM_DIR := tests/sim
SIM_OUT := $(BUILD)/sim
SIM_TEST := $(BUILD)/tests/sim_test

SIM_CXXFLAGS := -std=c++20 -O1 -g -Wall -Wextra -fPIC -fvisibility=hidden -isystem $(CUDA_HOME)/include -MMD -MP
# The runtime needs no C++ library, so that C programs can link the static one.
SIM_CUDART_FLAGS := -fno-exceptions -fno-rtti -fno-threadsafe-statics

SIM_DRIVER_SOURCES := driver_array driver_capture driver_context driver_copy driver_device driver_error driver_external driver_graph \
  driver_graphics driver_green_context driver_host_memory driver_ipc driver_lookup driver_memory driver_module driver_multicast \
  driver_per_thread driver_pool driver_pool_sharing driver_sparse driver_stream driver_texture driver_user_object driver_virtual \
  machine memory range_allocator settings usage
SIM_RUNTIME_SOURCES := runtime_array runtime_copy runtime_device runtime_driver runtime_error runtime_external runtime_graph \
  runtime_ipc runtime_launch runtime_memory runtime_pool runtime_stream runtime_user_object

SIM_DRIVER_OBJECTS := $(SIM_DRIVER_SOURCES:%=$(SIM_OUT)/obj/%.o)
SIM_RUNTIME_OBJECTS := $(SIM_RUNTIME_SOURCES:%=$(SIM_OUT)/obj/%.o)

.PHONY: sim
sim: $(SIM_OUT)/libcuda.so $(SIM_OUT)/libnvidia-ml.so.1 $(SIM_OUT)/libcudart.so $(SIM_OUT)/libcudart_static.a

$(SIM_DRIVER_OBJECTS) $(SIM_OUT)/obj/nvml.o: $(SIM_OUT)/obj/%.o: $(SIM_DIR)/%.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(SIM_CXXFLAGS) -c $< -o $@

$(SIM_RUNTIME_OBJECTS): $(SIM_OUT)/obj/%.o: $(SIM_DIR)/%.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(SIM_CXXFLAGS) $(SIM_CUDART_FLAGS) -c $< -o $@

# The C++ library is linked in: a C program with the real driver has none in its process either.
$(SIM_OUT)/libcuda.so.1: $(SIM_DRIVER_OBJECTS) $(SIM_DIR)/libcuda.map
	$(Q)$(CXX) -shared -o $@ $(SIM_DRIVER_OBJECTS) -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic-functions -Wl,--version-script=$(SIM_DIR)/libcuda.map \
	  -Wl,-z,defs -static-libstdc++ -static-libgcc -pthread

$(SIM_OUT)/libnvidia-ml.so.1: $(SIM_OUT)/obj/nvml.o
	$(Q)$(CXX) -shared -o $@ $< -Wl,-soname,libnvidia-ml.so.1 -Wl,-z,defs -static-libstdc++ -static-libgcc

$(SIM_OUT)/libcudart.so.13: $(SIM_RUNTIME_OBJECTS) $(SIM_DIR)/libcudart.map
	$(Q)$(CC) -shared -o $@ $(SIM_RUNTIME_OBJECTS) -Wl,-soname,libcudart.so.13 \
	  -Wl,--version-script=$(SIM_DIR)/libcudart.map -Wl,-z,defs -ldl -pthread

$(SIM_OUT)/libcudart_static.a: $(SIM_RUNTIME_OBJECTS)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(SIM_OUT)/libcuda.so: $(SIM_OUT)/libcuda.so.1
	$(Q)ln -sf $(<F) $@

$(SIM_OUT)/libcudart.so: $(SIM_OUT)/libcudart.so.13
	$(Q)ln -sf $(<F) $@

# Its test and the C program it runs find the simulator through their run path, so no environment is needed.
SIM_RPATH := -Wl,-rpath,'$$ORIGIN/../sim' -Wl,--disable-new-dtags

SIM_TEST_OBJECTS := $(patsubst $(SIM_DIR)/%.cpp,$(SIM_OUT)/obj/%.o,$(wildcard $(SIM_DIR)/*_test.cpp))

$(SIM_TEST_OBJECTS): $(SIM_OUT)/obj/%.o: $(SIM_DIR)/%.cpp
	@mkdir -p $(@D)
	$(Q)$(CXX) $(SIM_CXXFLAGS) -c $< -o $@

$(SIM_TEST): $(SIM_TEST_OBJECTS) $(BUILD)/tests/sim_static | $(SIM_OUT)/libcudart.so $(SIM_OUT)/libcuda.so
	@mkdir -p $(@D)
	$(Q)$(CXX) $(SIM_TEST_OBJECTS) -o $@ -L$(SIM_OUT) -lcudart $(SIM_RPATH) -lgtest -ldl -pthread

$(BUILD)/tests/sim_static: $(SIM_DIR)/sim_static.c $(SIM_OUT)/libcudart_static.a $(SIM_OUT)/libcuda.so
	@mkdir -p $(@D)
	$(Q)$(CC) -O1 -g -Wall -Wextra -isystem $(CUDA_HOME)/include -MMD -MP -MF $@.d $< -o $@ \
	  -L$(SIM_OUT) -l:libcudart_static.a $(SIM_RPATH) -ldl -lpthread

-include $(SIM_DRIVER_OBJECTS:.o=.d) $(SIM_RUNTIME_OBJECTS:.o=.d) $(SIM_TEST_OBJECTS:.o=.d) $(BUILD)/tests/sim_static.d
