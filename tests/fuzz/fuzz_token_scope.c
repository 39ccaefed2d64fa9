/* Scopes: an accepted scope is the same after it is written and read again. */
#include <assert.h>
#include <string.h>

#include "authz/token_scope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct token_scope scope, again;
    struct buffer OWNED_BUFFER text = BUFFER(64 * 1024), twice = BUFFER(64 * 1024);
    struct error err = {0};

    scope = again = (struct token_scope){.count = 0};
    if (!token_scope_add(&scope, (struct bytes){data, size}, &err).ok) return 0;
    assert(scope.count <= PRINCIPAL_ACCESS_MAX);
    assert(token_scope_write(&scope, &text, &err).ok);
    assert(memchr(buffer_text(&text), '"', text.length) == NULL && memchr(buffer_text(&text), '\n', text.length) == NULL);
    if (text.length > TOKEN_SCOPE_MAX) return 0;
    assert(token_scope_add(&again, buffer_bytes(&text), &err).ok);
    assert(token_scope_write(&again, &twice, &err).ok);
    assert(bytes_equal(buffer_bytes(&text), buffer_bytes(&twice)));
    return 0;
}
