/* A run's specification: accepted values are within the bounds of the table of limits. */
#include <assert.h>

#include "runner/sandbox/variables.h"
#include "training/format/form.h"
#include "training/format/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(run_spec) *spec = NULL;
    OWNED_JSON variables = NULL;
    struct error err;

    if (!run_spec_read((struct bytes){data, size}, &spec, &err).ok) return 0;
#define X(name, least, most, initial, what) assert(spec->limits.name >= (least) && spec->limits.name <= (most));
#include "training/format/limits.def"
#undef X
    for (size_t i = 0; i < spec->input_count; i++) assert(form_name(spec->inputs[i]));
    if (!variables_make(spec->environment, NULL, 0, &variables, &err).ok) return 0;
    assert(json_object_size(variables) >= 9);
    return 0;
}
