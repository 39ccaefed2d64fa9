/* A name of a tile that is read is written again to the byte, and no log has more of the tile than a full one. */
#include <assert.h>
#include <string.h>

#include "audit/format/tile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[128] = "", again[TILE_PATH_MAX];
    struct tile_name name;
    struct error err;

    if (size >= sizeof text || memchr(data, 0, size) != NULL) return 0;
    if (size > 0) memcpy(text, data, size);
    if (!tile_name_read(text, &name, &err).ok) return 0;
    tile_name_write(&name, again);
    assert(strcmp(again + strlen("tile/"), text) == 0);
    assert(name.width > 0 && name.width <= TILE_WIDTH);
    assert(tile_name_available(&name, name.index) <= TILE_WIDTH);
    return 0;
}
