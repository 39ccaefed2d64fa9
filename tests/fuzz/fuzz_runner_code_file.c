/* The file of a runner's code: code, invitation and registry of an accepted one belong together. */
#include <assert.h>
#include <string.h>

#include "documents/format/runner_code_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The code alone is written again: the signature of the invitation is not kept. */
static void check_read(const struct runner_code_file *file)
{
    struct runner_code code;
    char text[RUNNER_CODE_SIZE];

    runner_code_write(&file->code, text);
    assert(runner_code_read(bytes_of_text(text), &code) && memcmp(&code, &file->code, sizeof code) == 0);
    assert(uuid_equal(&code.runner, &file->invitation->runner) && registry_host_is_valid(file->registry.host));
    assert(strcmp(file->registry.audience, file->invitation->audience) == 0);
    assert(file->registry.has_ca == (file->ca.length > 0) && file->invitation->expires_ms > file->invitation->issued_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(runner_code_file) *file = NULL;
    struct error err = {0};

    if (runner_code_file_read((struct bytes){data, size}, &file, &err).ok) check_read(file);
    else assert(file == NULL && err.kind != ERROR_NONE);
    return 0;
}
