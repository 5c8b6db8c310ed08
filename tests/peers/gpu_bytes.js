// Runs in a page or a worker before anything else does: keeps account of its GPU buffers in `gpuBytes`, and of the adapter.
{
  const account = { adapter: null, live: 0, peak: 0, largest: 0 };
  const sizes = new Map();
  const { createBuffer } = GPUDevice.prototype;
  GPUDevice.prototype.createBuffer = function (descriptor) {
    // Also what cannot be had: it was asked for.
    account.largest = Math.max(account.largest, descriptor.size);
    account.peak = Math.max(account.peak, account.live + descriptor.size);
    const buffer = createBuffer.call(this, descriptor);
    sizes.set(buffer, descriptor.size);
    account.live += descriptor.size;
    return buffer;
  };
  const { destroy } = GPUBuffer.prototype;
  GPUBuffer.prototype.destroy = function () {
    account.live -= sizes.get(this) ?? 0;
    sizes.delete(this);
    destroy.call(this);
  };
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = function (...how) {
    const { vendor, architecture, device, description, isFallbackAdapter } = this.info;
    account.adapter = { vendor, architecture, device, description, isFallbackAdapter };
    return requestDevice.apply(this, how);
  };
  self.gpuBytes = account;
}
