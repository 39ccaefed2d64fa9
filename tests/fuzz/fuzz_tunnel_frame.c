/* What another node sends: frames follow each other without a gap, and a packet that may pass is one whole packet of IPv4. */
#include <assert.h>

#include "runner/tunnel/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_packet(struct bytes bytes)
{
    struct tunnel_packet packet;

    if (!tunnel_packet_read(bytes, &packet)) return;
    assert(bytes.length >= 20 && bytes.length <= TUNNEL_PACKET_MAX && bytes.data[0] == 0x45);
    assert(load_u16(bytes.data + 2) == bytes.length);
    assert(packet.from == load_u32(bytes.data + 12) && packet.to == load_u32(bytes.data + 16));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes left = {data, size};
    struct tunnel_frame frame;
    struct error err;
    size_t length = 0;

    check_packet(left);
    while (tunnel_frame_read(left, &frame, &length, &err).ok && length > 0) {
        assert(length <= left.length && length == TUNNEL_HEAD_SIZE + frame.content.length);
        assert(frame.content.data == left.data + TUNNEL_HEAD_SIZE);
        assert(frame.kind != TUNNEL_HELLO || frame.content.length == TUNNEL_HELLO_SIZE);
        if (frame.kind == TUNNEL_PACKET) check_packet(frame.content);
        left = (struct bytes){left.data + length, left.length - length};
    }
    assert(left.length <= size);
    return 0;
}
