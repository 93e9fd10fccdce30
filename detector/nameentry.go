package detector

import (
	"encoding/binary"
	"encoding/hex"
	"unsafe"

	"github.com/stillhere/stillhere/schemas"
)

// nameEntry is one name in the table of names: a head of 16 bits, the tenant and the text. The head has
// the lengths. A text that is a UUID in its canonical form, as most names are, takes the 16
// bytes of its value.
type nameEntry []byte

const (
	entryHead = 2

	uuidText, uuidBytes = 36, 16
	// packed stands for the length of a text that is a UUID, less one.
	packed      = schemas.MaxName
	textLengths = schemas.MaxName + 1
)

// A build fails here when the lengths outgrow their 16 bits.
const _ = uint(1<<16 - 1 - (schemas.MaxTenant*textLengths + packed))

// maxEntry is the size of the longest entry.
const maxEntry = entryHead + schemas.MaxTenant + schemas.MaxName

// appendEntry appends the entry of a name.
func appendEntry(dst []byte, name schemas.Name) []byte {
	uuid, canonical := packUUID(name.Text)
	length := len(name.Text) - 1
	if canonical {
		length = packed
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(name.Tenant)*textLengths+length))
	dst = append(dst, name.Tenant...)
	if canonical {
		return append(dst, uuid[:]...)
	}
	return append(dst, name.Text...)
}

// sized returns the entry at the start of e.
func (e nameEntry) sized() nameEntry {
	tenant, text := e.lengths()
	return e[:entryHead+tenant+text]
}

// lengths are the bytes of the tenant and of the text.
func (e nameEntry) lengths() (tenant, text int) {
	head := int(binary.LittleEndian.Uint16(e))
	if tenant, text = head/textLengths, head%textLengths+1; text > schemas.MaxName {
		text = uuidBytes
	}
	return tenant, text
}

// isPacked reports whether the text is a UUID.
func (e nameEntry) isPacked() bool {
	return binary.LittleEndian.Uint16(e)%textLengths == packed
}

// name is the name of the entry. It stays valid.
func (e nameEntry) name() schemas.Name {
	tenant, text := e.parts()
	if !e.isPacked() {
		return schemas.Name{Tenant: tenant, Text: text}
	}
	var space [uuidText]byte
	return schemas.Name{Tenant: tenant, Text: string(unpackUUID(&space, text))}
}

// tenant is the tenant of the name. It stays valid.
func (e nameEntry) tenant() string {
	tenant, _ := e.parts()
	return tenant
}

// is reports whether the entry is of the name.
func (e nameEntry) is(name schemas.Name) bool {
	tenant, text := e.parts()
	if tenant != name.Tenant {
		return false
	}
	if !e.isPacked() {
		return text == name.Text
	}
	var space [uuidText]byte
	return string(unpackUUID(&space, text)) == name.Text
}

// parts alias the tenant and the text, which may be packed.
func (e nameEntry) parts() (tenant, text string) {
	all := unsafe.String(&e[entryHead], len(e)-entryHead)
	n, _ := e.lengths()
	return all[:n], all[n:]
}

// packUUID returns the value of a text that is a UUID in lower case with its four hyphens.
func packUUID(text string) (uuid [uuidBytes]byte, canonical bool) {
	if len(text) != uuidText {
		return uuid, false
	}
	var digits [2 * uuidBytes]byte
	copy(digits[copy(digits[:], text[:8]):], text[9:13])
	copy(digits[12:], text[14:18])
	copy(digits[16:], text[19:23])
	copy(digits[20:], text[24:])
	if _, err := hex.Decode(uuid[:], digits[:]); err != nil {
		return uuid, false
	}
	var space [uuidText]byte
	return uuid, string(unpackUUID(&space, string(uuid[:]))) == text
}

// unpackUUID writes the text of a UUID to space.
func unpackUUID(space *[uuidText]byte, uuid string) []byte {
	var value [uuidBytes]byte
	copy(value[:], uuid)
	hex.Encode(space[:], value[:4])
	hex.Encode(space[9:], value[4:6])
	hex.Encode(space[14:], value[6:8])
	hex.Encode(space[19:], value[8:10])
	hex.Encode(space[24:], value[10:])
	space[8], space[13], space[18], space[23] = '-', '-', '-', '-'
	return space[:]
}
