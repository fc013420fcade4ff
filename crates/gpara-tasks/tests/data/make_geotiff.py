# A small GeoTIFF as GDAL writes it: tiles, LZW with the floating-point predictor, a missing value, EPSG:25832.
import sys, numpy as np, rasterio
from rasterio.transform import from_origin
data = (np.arange(17 * 33, dtype=np.float32).reshape(17, 33) * 0.25 - 50).astype(np.float32)
data[3, 4] = -9999
for name, extra in (("gdal_tiles.tif", dict(tiled=True, blockxsize=16, blockysize=16, compress="lzw", predictor=3)),):
    with rasterio.open(f"{sys.argv[1]}/{name}", "w", driver="GTiff", width=33, height=17, count=1, dtype="float32",
                       nodata=-9999, crs="EPSG:25832", transform=from_origin(600000, 5500000, 20, 10), **extra) as out:
        out.write(data, 1)
