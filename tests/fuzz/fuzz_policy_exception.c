/* Exceptions: any JSON is either well-formed or has a problem that can be shown; none is fatal. */
#include <assert.h>

#include "policy/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(policy_exception) *exception = NULL;
    OWNED_JSON json = NULL;
    struct error err;

    if (!json_read((struct bytes){data, size}, POLICY_DOCUMENT_BYTES_MAX, &json, &err).ok) return 0;
    if (!policy_exception_new(json, &exception, &err).ok) return 0;
    const char *problem = policy_exception_problem(exception);
    for (size_t i = 0; problem != NULL && problem[i] != '\0'; i++) assert(problem[i] >= ' ' && problem[i] <= '~');
    return 0;
}
