// Preloaded into the bare runs of the bench: makes PyTorch report its CPU tensors, as `vramtrack run --cpu` does, so that the
// difference is what recording costs and not what PyTorch's own book-keeping for such reports does.
namespace c10 {
[[gnu::visibility("default")]] bool memoryProfilingEnabled() { return true; }
}  // namespace c10
