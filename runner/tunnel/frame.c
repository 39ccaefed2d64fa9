#include "runner/tunnel/frame.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#define IP_HEAD     20
#define IP_BEGIN    0x45 /* version 4, five words of head */
#define OFFSET_MASK 0x1fff

static bool has_right_length(uint8_t kind, size_t length)
{
    switch (kind) {
    case TUNNEL_HELLO: return length == TUNNEL_HELLO_SIZE;
    case TUNNEL_PACKET: return length >= IP_HEAD && length <= TUNNEL_PACKET_MAX;
    case TUNNEL_BYE: return length == 0;
    default: return false;
    }
}

struct result tunnel_frame_read(struct bytes bytes, struct tunnel_frame *frame_out, size_t *length_out, struct error *err)
{
    *length_out = 0;
    if (bytes.length < TUNNEL_HEAD_SIZE) return SUCCESS;
    const size_t length = load_u16(bytes.data + 1);
    if (!has_right_length(bytes.data[0], length)) return failure(err, ERROR_INVALID, "what came is no frame of a tunnel");
    if (bytes.length - TUNNEL_HEAD_SIZE < length) return SUCCESS;
    *frame_out =
        (struct tunnel_frame){.kind = (enum tunnel_kind)bytes.data[0], .content = {bytes.data + TUNNEL_HEAD_SIZE, length}};
    *length_out = TUNNEL_HEAD_SIZE + length;
    return SUCCESS;
}

void tunnel_frame_head(enum tunnel_kind kind, size_t length, uint8_t head_out[TUNNEL_HEAD_SIZE])
{
    assert(has_right_length((uint8_t)kind, length));
    head_out[0] = (uint8_t)kind;
    store_u16(head_out + 1, (uint16_t)length);
}

void tunnel_hello_write(const uint8_t own[TUNNEL_DIGEST_SIZE], const uint8_t other[TUNNEL_DIGEST_SIZE],
                        uint8_t hello_out[TUNNEL_HELLO_SIZE])
{
    hello_out[0] = TUNNEL_VERSION;
    memcpy(hello_out + 1, own, TUNNEL_DIGEST_SIZE);
    memcpy(hello_out + 1 + TUNNEL_DIGEST_SIZE, other, TUNNEL_DIGEST_SIZE);
}

/* ---- packets ---- */

/* No redirects, and no questions about the network. */
static bool is_usual_message(struct bytes packet)
{
    if (packet.length < IP_HEAD + 1) return false;
    const uint8_t type = packet.data[IP_HEAD];
    return type == ICMP_ECHO || type == ICMP_ECHOREPLY || type == ICMP_DEST_UNREACH || type == ICMP_TIME_EXCEEDED;
}

static bool is_usual(struct bytes packet)
{
    const bool is_later_piece = (load_u16(packet.data + 6) & OFFSET_MASK) != 0;

    switch (packet.data[9]) {
    case IPPROTO_TCP:
    case IPPROTO_UDP: return true;
    case IPPROTO_ICMP: return !is_later_piece && is_usual_message(packet);
    default: return false;
    }
}

bool tunnel_packet_read(struct bytes bytes, struct tunnel_packet *packet_out)
{
    if (bytes.length < IP_HEAD || bytes.length > TUNNEL_PACKET_MAX || bytes.data[0] != IP_BEGIN) return false;
    if (load_u16(bytes.data + 2) != bytes.length || !is_usual(bytes)) return false;
    *packet_out = (struct tunnel_packet){.from = load_u32(bytes.data + 12), .to = load_u32(bytes.data + 16)};
    return true;
}
