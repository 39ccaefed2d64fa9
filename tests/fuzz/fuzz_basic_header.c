/* Authorization headers, up to name and password. */
#include <assert.h>

#include "authz/basic.h"
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED_STRING header = memory_copy_text((const char *)data, size);
    struct buffer OWNED_BUFFER decoded = BUFFER(AUTHORIZATION_MAX);
    enum authorization_scheme scheme = AUTHORIZATION_BEARER;
    struct bytes value = {0}, name = {0}, password = {0};
    struct error err = {0};

    if (header == NULL || !authorization_split(header, &scheme, &value, &err).ok) return 0;
    assert(value.length > 0 && value.length < size && value.data[0] != ' ');
    if (scheme != AUTHORIZATION_BASIC || !basic_read(value, &decoded, &name, &password, &err).ok) return 0;
    assert(name.length > 0 && password.length > 0 && name.length + 1 + password.length == decoded.length);
    assert(name.data[name.length] == ':');
    const size_t length = name.length;
    if (!basic_unescape(&decoded, &name, &password, &err).ok) return 0;
    assert(name.length <= length && name.data == decoded.data && password.data == decoded.data + length + 1);
    assert(password.data + password.length <= decoded.data + decoded.length);
    return 0;
}
