# A small JAX computation; prints its result.
import jax
import jax.numpy as jnp

matrix = jax.random.normal(jax.random.PRNGKey(0), (512, 512))
print(jax.devices()[0].platform, float(jax.jit(lambda m: jnp.tanh(m @ m).sum())(matrix)))
